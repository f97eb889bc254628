package base_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/base"
)

// gateway is a server that speaks as much of S3 as a store needs. Every so many answers it fails: it says 500, cuts its answer, or alters a byte.
type gateway struct {
	mu      sync.Mutex
	objects memory
	every   int // 0: never
	answers int
	endless bool  // objects, and lists of them, do not end
	pages   bool  // lists go on in a further page
	sent    int64 // bytes of these
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/bucket/")
	g.answers++
	fails := g.every > 0 && g.answers%g.every == 0
	fault := g.answers / max(g.every, 1) % 3
	if fails && fault == 0 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	switch {
	case r.Method == http.MethodPut:
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength || r.Header.Get("Content-Md5") == "" || r.Header.Get("X-Amz-Content-Sha256") != fmt.Sprintf("%x", sha256.Sum256(b)) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = g.objects.Put(r.Context(), name, b)
		w.Header().Set("ETag", `"0"`)
	case r.Method == http.MethodDelete:
		delete(g.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Query().Has("list-type") && g.endless:
		fmt.Fprint(w, "<ListBucketResult>")
		for contents := strings.Repeat("<Contents/>", 1<<16); r.Context().Err() == nil; g.sent += int64(len(contents)) {
			fmt.Fprint(w, contents)
		}
	case r.URL.Query().Has("list-type") && g.pages:
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>%s</ListBucketResult>",
			g.answers, strings.Repeat("<Contents/>", 1<<17))
	case r.URL.Query().Has("list-type"):
		type key struct{ Key string }
		var list struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []key
		}
		names, _ := g.objects.List(r.Context())
		for _, n := range names {
			if strings.HasPrefix(n, r.URL.Query().Get("prefix")) {
				list.Contents = append(list.Contents, key{n})
			}
		}
		_ = xml.NewEncoder(w).Encode(list)
	default:
		b, ok := g.objects[name]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
			return
		}
		if fails && fault == 1 {
			b = bytes.Clone(b)
			b[len(b)/2] ^= 1
		}
		w.Header().Set("ETag", `"0"`)
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		if fails && fault == 2 {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			_, _ = w.Write(b[:len(b)/2])
			return
		}
		if g.endless {
			w.WriteHeader(http.StatusOK)
			for zeros := make([]byte, 1<<20); r.Context().Err() == nil; g.sent += int64(len(zeros)) {
				_, _ = w.Write(zeros)
			}
			return
		}
		http.ServeContent(w, r, "", time.Unix(0, 0), bytes.NewReader(b))
	}
}

// TestBucket: a base in a bucket is stored and read as in a folder, also by a gateway that fails, with as many tries as a worker takes.
func TestBucket(t *testing.T) {
	for _, every := range []int{0, 3} {
		g := &gateway{objects: memory{}, every: every}
		server := httptest.NewServer(g)
		defer server.Close()
		t.Setenv("AWS_ENDPOINT_URL", server.URL)
		t.Setenv("AWS_REGION", "eu-north-1")
		t.Setenv("AWS_ACCESS_KEY_ID", "id")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		s, err := base.Open("s3://bucket/graphs", "g.ledger")
		if err != nil {
			t.Fatal(err)
		}
		insist := func(f func() error) {
			t.Helper()
			err := f()
			for range 20 {
				if err == nil {
					return
				}
				err = f()
			}
			t.Fatal(err)
		}
		file := random(rand.New(rand.NewPCG(7, 8)), 20<<20)
		name, _, err := base.Write(9, []base.Source{{File: base.File{Name: "state", Bytes: int64(len(file))}, Reader: bytes.NewReader(file)}}, nil,
			func(name string, b []byte) error {
				insist(func() error { return s.Put(t.Context(), name, b) })
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		insist(func() error {
			b, err := base.Find(t.Context(), s, name)
			if err != nil {
				return err
			}
			if err := b.Fetch(t.Context(), t.TempDir()); err != nil {
				return err
			}
			r, size, err := b.Open("state")
			if err != nil {
				return err
			}
			got := make([]byte, size)
			if _, err := r.ReadAt(got, 0); err != nil {
				return err
			}
			if !bytes.Equal(got, file) {
				t.Fatal("other bytes were read than were stored")
			}
			return nil
		})
		later := base.Name{Window: 10, Sum: name.Sum}
		insist(func() error { return base.Sweep(t.Context(), s, []base.Name{name}, later.Window) })
		insist(func() error { return base.Sweep(t.Context(), s, []base.Name{later}, later.Window) })
		if _, err := base.Find(t.Context(), s, later); !base.Useless(err) {
			t.Errorf("a base that is not there: %v", err)
		}
		for object := range g.objects {
			if strings.HasPrefix(object, "graphs/g.ledger/base-") {
				t.Errorf("%s was not deleted", object)
			}
		}
	}
	for _, address := range []string{"s3://", "s3://bucket?a=b", "gs://bucket"} {
		if s, err := base.Open(address, "g.ledger"); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s is taken for %v (%v)", address, s, err)
		}
	}
}

// TestEndlessBucket: of objects and lists without an end no more is read than they may have.
func TestEndlessBucket(t *testing.T) {
	g := &gateway{objects: memory{}}
	server := httptest.NewServer(g)
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_REGION", "eu-north-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s, err := base.Open("s3://bucket/graphs", "g.ledger")
	if err != nil {
		t.Fatal(err)
	}
	name, _ := write(t, s, 1, []byte("some text"), nil)
	b, err := base.Find(t.Context(), s, name)
	if err != nil {
		t.Fatal(err)
	}
	g.pages, g.answers = true, 0
	if _, err := s.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 262144 objects") || g.answers > 3 {
		t.Errorf("after %d pages, of which there is no end: %v", g.answers, err)
	}
	g.pages, g.endless = false, true
	for what, ask := range map[string]func() error{
		"a part": func() error { return b.Fetch(t.Context(), t.TempDir()) },
		"a list": func() error { _, err := base.Find(t.Context(), s, name); return err },
		"names":  func() error { _, err := s.List(t.Context()); return err },
	} {
		g.sent = 0
		if err := ask(); err == nil {
			t.Errorf("%s without an end was read", what)
		}
		server.CloseClientConnections()
		g.mu.Lock()
		if g.sent > 5*(128+64)<<20 {
			t.Errorf("%d MiB of %s were read", g.sent>>20, what)
		}
		g.mu.Unlock()
	}
}

// TestInTheClear: a bucket behind http:// is known to be, unless it is on this machine.
func TestInTheClear(t *testing.T) {
	for url, want := range map[string]string{
		"http://store.example:9000": "store.example:9000", "https://store.example": "", "": "", "http://127.0.0.1:9000": "", "http://localhost:9000": "", "http://[::1]:9000": "",
	} {
		t.Setenv("AWS_ENDPOINT_URL", url)
		if got := base.InTheClear("s3://bucket"); got != want || base.InTheClear("/bases") != "" {
			t.Errorf("AWS_ENDPOINT_URL=%s: requests go to %q in the clear, want %q", url, got, want)
		}
	}
}
