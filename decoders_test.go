package gvbll

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unfuzzed are the packages with decoders and without a fuzz test of their own, and why.
var unfuzzed = map[string]string{
	"cmd/gvbll":         "texts of the command line, which are the operator's",
	"cmd/gvbll/flags":   "texts of the command line and of its file, which are the operator's",
	"cmd/gvbll/service": "FuzzNode of topics/wire",
	"topics/worker":     "parts of a base, from files whose checksums package base has compared",
	"pipeline":          "FuzzRestore of pipeline/snapshots",
	"pipeline/serve":    "rows that this program has written, compared with their checksums before",
}

// TestDecoders: every package that decodes bytes of others has a fuzz test.
func TestDecoders(t *testing.T) {
	decoder := regexp.MustCompile(`^(?i:decode|unmarshal|parse|read|restore)`)
	plain := []string{"Read", "ReadAt", "ReadFrom"} // of package io
	fuzzers, decoders := map[string][]string{}, map[string]string{}
	must(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		name, dir := d.Name(), filepath.Dir(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != "." || name == "shards" || name == "faults" || name == "lab"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, decl := range f.Decls {
			fn, is := decl.(*ast.FuncDecl)
			switch {
			case !is:
			case strings.HasSuffix(name, "_test.go"):
				if strings.HasPrefix(fn.Name.Name, "Fuzz") {
					fuzzers[dir] = append(fuzzers[dir], fn.Name.Name)
				}
			case decoder.MatchString(fn.Name.Name) && !slices.Contains(plain, fn.Name.Name) && takesBytes(fn.Type):
				decoders[dir] = fn.Name.Name
			}
		}
		return nil
	}))
	for dir, name := range decoders {
		if _, excepted := unfuzzed[dir]; fuzzers[dir] == nil && !excepted && !strings.HasSuffix(dir, "test") {
			t.Errorf("%s decodes bytes (%s) and has no fuzz test", dir, name)
		}
	}
	for dir := range unfuzzed {
		if decoders[dir] == "" || fuzzers[dir] != nil {
			t.Errorf("%s is excepted, and decodes nothing or has a fuzz test", dir)
		}
	}
}

// takesBytes reports whether a function has a parameter of bytes, or of what they are read from.
func takesBytes(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		switch x := p.Type.(type) {
		case *ast.ArrayType:
			element, is := x.Elt.(*ast.Ident)
			return is && element.Name == "byte"
		case *ast.SelectorExpr:
			from, is := x.X.(*ast.Ident)
			return is && from.Name == "io" && strings.HasPrefix(x.Sel.Name, "Reader")
		}
		return false
	})
}
