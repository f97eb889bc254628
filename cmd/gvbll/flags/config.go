package flags

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v2"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// configFile is a file of flags in YAML, with their names as keys. A key that is the
// name of a command holds flags for that command alone, which override the same flags
// outside. The command line and the environment override the file.
//
//	brokers: [kafka-1:9092, kafka-2:9092]
//	log-format: json
//	work:
//	  window: 1000
type configFile struct {
	process Process
	name    string // of the file
	all     map[string]any
	command map[string]map[string]any
}

// maxConfig is the largest size of the file in bytes.
const maxConfig = 1 << 20

func loadConfig(r io.Reader, p Process) (_ kong.Resolver, err error) {
	name := ""
	if file, is := r.(*os.File); is {
		name = " " + file.Name()
		defer func() {
			if err != nil {
				err = fmt.Errorf("--config%s: %w", name, err)
			}
		}()
	}
	b, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxConfig {
		return nil, fmt.Errorf("more than %d bytes: give a file of flags", maxConfig)
	}
	var file map[string]any
	if err := yaml.UnmarshalStrict(b, &file); err != nil {
		return nil, fmt.Errorf("it is not a YAML mapping: %w", spelling.Mistake(b, err, file))
	}
	c := &configFile{process: p, name: name, all: map[string]any{}, command: map[string]map[string]any{}}
	for key, v := range file {
		section, ok := v.(map[any]any)
		if !ok {
			c.all[key] = v
			continue
		}
		c.command[key] = map[string]any{}
		for k, v := range section {
			c.command[key][fmt.Sprint(k)] = v
		}
	}
	return c, nil
}

// Validate implements kong.Resolver. A key that is not the name of a flag is an
// error, because it is most likely misspelt.
func (c *configFile) Validate(app *kong.Application) error {
	flags := func(n *kong.Node) (names []string) {
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				names = append(names, f.Name)
			}
		}
		return names
	}
	var every, names, wrong []string
	refuse := func(place, key string, known []string) {
		meant := spelling.Meant(key, slices.Compact(slices.Sorted(slices.Values(known))))
		wrong = append(wrong, fmt.Sprintf("no flag or command has the name %s%s%s", place, key, spelling.Unknown{Meant: meant}.Question()))
	}
	for _, n := range app.Leaves(false) {
		own := flags(n)
		names = append(names, n.Name)
		every = append(every, own...)
		for key := range c.command[n.Name] {
			if !slices.Contains(own, key) || !settable(key) {
				refuse(n.Name+": ", key, own)
			}
		}
	}
	for key := range c.all {
		if !slices.Contains(every, key) || !settable(key) {
			if slices.Contains(names, key) {
				wrong = append(wrong, key+" is a command: give its flags below it, as "+key+": {log-level: debug}")
			} else {
				refuse("", key, slices.Concat(every, names))
			}
		}
	}
	for name := range c.command {
		if slices.Contains(every, name) && !slices.Contains(names, name) {
			wrong = append(wrong, name+" is a flag: give a value, or a list of values, and no mapping")
		} else if !slices.Contains(names, name) {
			refuse("", name, slices.Concat(every, names))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("--config%s: %s", c.name, strings.Join(wrong, "; "))
}

// settable reports whether a file may have the flag.
func settable(flag string) bool { return flag != "help" && flag != "config" }

// Resolve implements kong.Resolver.
func (c *configFile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if _, set := c.process.lookup(variable(flag.Name)); set {
		return nil, nil
	}
	value, given := any(nil), false
	if n := ctx.Selected(); n != nil {
		value, given = c.command[n.Name][flag.Name]
	}
	if !given {
		value, given = c.all[flag.Name]
	}
	if !given {
		return nil, nil
	}
	return flagText(value)
}

// flagText returns a value in the form that it has on a command line.
func flagText(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, errors.New("it is empty: give a value, or leave out the key")
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, err := flagText(item)
			if err != nil {
				return nil, err
			}
			items[i] = text.(string)
		}
		return kong.JoinEscaped(items, ','), nil
	case map[any]any:
		return nil, errors.New("it is a mapping: give a value, or a list of values")
	default:
		return fmt.Sprint(v), nil
	}
}
