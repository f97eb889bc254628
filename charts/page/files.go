package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"
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
	"score": func(v any) string { return fmt.Sprintf("%.4f", v) },
	"link":  nodeLink,
	"short": func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
	"at":    func(t time.Time) string { return t.UTC().Format(time.DateTime) },
	"css":   func() template.CSS { return style },
}).ParseFS(files, "files/*.html"))

// style is page.css, for files that need nothing else.
var style = func() template.CSS {
	text, err := files.ReadFile("files/page.css")
	if err != nil {
		panic(err) // it is embedded
	}
	return template.CSS(text)
}()

// execute returns what a template makes of the data.
func execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

// formatted formats a score as the pages do.
func formatted(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// render answers with a template. The template is executed into memory first, so that
// an error does not leave half a page.
func render(w http.ResponseWriter, status int, name string, data any) {
	text, err := execute(name, data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error is the client's
}
