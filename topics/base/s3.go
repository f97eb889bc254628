package base

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket is a bucket of S3, or of what speaks its protocol, with the prefix of the objects' names.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// requestTime bounds a request: a part in it takes less unless the store is as good as away.
const requestTime = 2 * time.Minute

// openBucket returns the bucket of s3://NAME/PREFIX. Where it is and who asks is said by the environment, as to all programs
// of S3: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of the machine or of the pod.
func openBucket(address, ledger string) (Store, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%s: give s3://BUCKET or s3://BUCKET/PREFIX", address)
	}
	endpoint, err := url.Parse(cmp.Or(os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com"))
	if err != nil || endpoint.Host == "" {
		return nil, fmt.Errorf("%s: AWS_ENDPOINT_URL=%.100q is not the URL of a server", address, os.Getenv("AWS_ENDPOINT_URL"))
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	transport.ResponseHeaderTimeout = 20 * time.Second // of a part, too, the first byte comes sooner
	c, err := minio.New(endpoint.Host, &minio.Options{
		Transport: pages{transport},
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: endpoint.Scheme == "https", Region: os.Getenv("AWS_REGION"), MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &bucket{c, u.Host, strings.TrimPrefix(strings.TrimSuffix(u.Path, "/")+"/"+ledger+"/", "/")}, nil
}

// InTheClear returns the server to which requests for the store at an address go unencrypted, "" if there is none, or it is this machine.
func InTheClear(address string) string {
	u, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	if !strings.HasPrefix(address, "s3://") || err != nil || u.Scheme != "http" {
		return ""
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() || u.Hostname() == "localhost" {
		return ""
	}
	return u.Host
}

func (b *bucket) String() string { return "s3://" + b.name + "/" + b.prefix }

// Beside implements Store.
func (b *bucket) Beside(name string) Store {
	dir, _ := path.Split(strings.TrimSuffix(b.prefix, "/"))
	return &bucket{b.client, b.name, dir + path.Base(name) + "/"}
}

// wrap returns an error as those of a store are.
func (b *bucket) wrap(err error) error {
	said := minio.ToErrorResponse(err)
	switch {
	case err == nil || errors.Is(err, errDamaged):
		return err
	case said.Code == minio.NoSuchKey:
		return fs.ErrNotExist
	}
	err = fmt.Errorf("%v: %w", b, err)
	if said.StatusCode/100 == 4 && said.StatusCode != http.StatusRequestTimeout && said.StatusCode != http.StatusTooManyRequests {
		return err // of the bucket's name, or of who asks
	}
	return &AwayError{err}
}

func (b *bucket) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	short, sum := md5.Sum(data), sha256.Sum256(data) // which is signed: over http, nothing else is
	_, err := minio.Core{Client: b.client}.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(data), int64(len(data)),
		// which it would stream otherwise
		base64.StdEncoding.EncodeToString(short[:]), hex.EncodeToString(sum[:]), minio.PutObjectOptions{DisableContentSha256: true})
	return b.wrap(err)
}

func (b *bucket) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	r, info, _, err := minio.Core{Client: b.client}.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.wrap(err)
	}
	defer r.Close()
	data, err := readObject(r, info.Size, most)
	return data, b.wrap(err)
}

// pages is a transport that bounds the pages of a list: the client reads each whole.
type pages struct{ http.RoundTripper }

const (
	maxPage  = 4 << 20 // bytes, of at most 1,000 names
	maxNames = 1 << 18 // of parts of 8 MiB, 2 TiB
)

func (p pages) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := p.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && r.URL.Query().Has("list-type") {
		res.Body = http.MaxBytesReader(nil, res.Body, maxPage)
	}
	return res, err
}

func (b *bucket) List(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, b.wrap(o.Err)
		}
		if len(names) == maxNames {
			return nil, fmt.Errorf("%v: more than %d objects, which are not all of bases: give --base a prefix of its own", b, maxNames)
		}
		names = append(names, strings.TrimPrefix(o.Key, b.prefix))
	}
	return names, nil
}

func (b *bucket) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return b.wrap(b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}
