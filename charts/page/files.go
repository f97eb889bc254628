package page

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strconv"
)

//go:embed files
var files embed.FS

// file returns a handler that serves one of the embedded files.
func file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, "files/"+name)
	}
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"score": formatted,
	"short": func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
}).ParseFS(files, "files/*.html"))

// formatted formats a score as the pages do.
func formatted(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// render answers with a template. The template is executed into memory first, so that
// an error does not leave half a page.
func render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // an error is the client's
}
