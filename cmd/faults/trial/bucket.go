package trial

import (
	"bytes"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"
)

// disturbBucket puts a proxy before the server of buckets that AWS_ENDPOINT_URL names, for this process and the workers that it starts.
// Of its answers one in ten is late, one in ten says 500, one in ten is cut short, and of one a byte is altered, once.
func disturbBucket(seed uint64) (stop func()) {
	server := need(url.Parse(os.Getenv("AWS_ENDPOINT_URL")))
	var mu sync.Mutex
	rng, altered := rand.New(rand.NewPCG(seed, 3)), false
	fault := func() (n int, alter bool) {
		mu.Lock()
		defer mu.Unlock()
		if n = rng.IntN(10); n == 3 && !altered {
			altered, alter = true, true
		}
		return n, alter
	}
	const late = 300 * time.Millisecond
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Host = r.In.Host // which is signed
		},
		ModifyResponse: func(r *http.Response) error {
			n, alter := fault()
			switch {
			case n == 0:
				time.Sleep(late)
			case n == 1:
				r.StatusCode = http.StatusInternalServerError
			case r.Request.Method == http.MethodGet && r.ContentLength > 1 && n == 2:
				r.Body = io.NopCloser(io.LimitReader(r.Body, r.ContentLength/2)) // which the proxy ends with the connection
			case r.Request.Method == http.MethodGet && r.ContentLength > 1 && alter:
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				b[0] ^= 1
				r.Body = io.NopCloser(bytes.NewReader(b))
			}
			return nil
		},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	must(os.Setenv("AWS_ENDPOINT_URL", proxy.URL))
	return func() {
		must(os.Setenv("AWS_ENDPOINT_URL", server.String()))
		proxy.Close()
	}
}
