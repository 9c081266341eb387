package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

func TestAPackageIsFetchedOnce(t *testing.T) {
	s := newServer(t)
	digest := s.push(t, "team/network:v1", "network")
	cache := newCache(t)
	for _, step := range []struct {
		reason, ref string
		policy      corev1.PullPolicy
		requests    bool
	}{
		{"the first time, the registry is asked", "team/network:v1", corev1.PullIfNotPresent, true},
		{"then the tag and the package are in the cache", "team/network:v1", corev1.PullIfNotPresent, false},
		{"without a policy too", "team/network:v1", "", false},
		{"Never asks no registry", "team/network:v1", corev1.PullNever, false},
		{"Always asks for the digest of the tag", "team/network:v1", corev1.PullAlways, true},
		{"but a digest never changes", "team/network@" + digest.String(), corev1.PullAlways, false},
	} {
		s.setFault(nil)
		got, err := s.client(t, cache).Fetch(t.Context(), Request{Reference: s.ref(t, step.ref), Policy: step.policy})
		if err != nil || got.Digest != digest || !strings.Contains(string(got.Stream), "name: network") {
			t.Fatalf("%s: %+v, %v", step.reason, got, err)
		}
		if n := s.count(" /v2"); (n > 0) != step.requests {
			t.Errorf("%s: %d requests", step.reason, n)
		}
	}
	if s.count("GET /v2/team/network/manifests") > 0 {
		t.Error("a manifest was fetched that is in the cache")
	}
}

func TestATagThatMoves(t *testing.T) {
	s := newServer(t)
	before := s.push(t, "network:v1", "before")
	cache := newCache(t)
	fetch := func(policy corev1.PullPolicy) v1.Hash {
		t.Helper()
		got, err := s.client(t, cache).Fetch(t.Context(), Request{Reference: s.ref(t, "network:v1"), Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		return got.Digest
	}
	fetch(corev1.PullIfNotPresent)
	after := s.push(t, "network:v1", "after")
	if fetch(corev1.PullIfNotPresent) != before || fetch(corev1.PullNever) != before {
		t.Error("the tag was asked for again")
	}
	if fetch(corev1.PullAlways) != after || fetch(corev1.PullNever) != after {
		t.Error("the tag was not asked for, or not stored")
	}
}

func TestNeverIsOffline(t *testing.T) {
	s := newServer(t)
	digest := s.push(t, "network:v1", "network")
	for _, ref := range []string{"network:v1", "network@" + digest.String()} {
		s.setFault(nil)
		_, err := s.client(t, newCache(t)).Fetch(t.Context(), Request{Reference: s.ref(t, ref), Policy: corev1.PullNever})
		if !errors.Is(err, errNotCached) || !strings.Contains(err.Error(), "Never asks no registry") || s.count(" ") > 0 {
			t.Errorf("%s: %v, %d requests", ref, err, s.count(" "))
		}
	}
}

// isBlob matches requests for layers and configurations.
func isBlob(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
}

func isManifest(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") }

func TestFaults(t *testing.T) {
	// cut answers with a part of what it announces, and closes the connection.
	cut := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "part")
		panic(http.ErrAbortHandler)
	}
	cases := map[string]struct {
		// fault is what the n-th request gets instead of the registry's answer.
		fault   func(w http.ResponseWriter, r *http.Request, n int32) bool
		problem string
	}{
		"other content for a layer": {func(w http.ResponseWriter, r *http.Request, _ int32) bool {
			if isBlob(r) {
				_, _ = io.WriteString(w, "other")
			}
			return isBlob(r)
		}, "error verifying sha256 checksum"},
		"more content for a layer": {func(w http.ResponseWriter, r *http.Request, _ int32) bool {
			if isBlob(r) {
				_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
			}
			return isBlob(r)
		}, "the registry sent more than"},
		"a manifest with another digest": {func(w http.ResponseWriter, r *http.Request, _ int32) bool {
			if isManifest(r) && r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"config": {}}`)
				return true
			}
			return false
		}, "does not match requested digest"},
		"a layer that ends too early, twice": {func(w http.ResponseWriter, r *http.Request, n int32) bool {
			if isBlob(r) && n < 3 {
				cut(w)
			}
			return false
		}, ""},
		"no credentials": {func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, "needs other credentials"},
		"no such package": {func(w http.ResponseWriter, r *http.Request, _ int32) bool {
			if isManifest(r) {
				w.WriteHeader(http.StatusNotFound)
			}
			return isManifest(r)
		}, "there is no such package, or it needs credentials"},
		"no HEAD": {func(w http.ResponseWriter, r *http.Request, _ int32) bool {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			return r.Method == http.MethodHead
		}, ""},
		"busy, and then not": {func(w http.ResponseWriter, _ *http.Request, n int32) bool {
			if n <= 2 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return n <= 2
		}, ""},
		"busy for longer than the caller waits": {func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}, "answers 429 Too Many Requests and asks to wait 1h0m0s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.push(t, "network:v1", "network")
			var n atomic.Int32
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool { return tc.fault(w, r, n.Add(1)) })
			ctx, cancel := context.WithTimeout(t.Context(), hour/2)
			defer cancel()
			cache := newCache(t)
			_, err := s.client(t, cache).Fetch(ctx, Request{Reference: s.ref(t, "network:v1")})
			if (err == nil) != (tc.problem == "") || err != nil && (!strings.Contains(err.Error(), tc.problem) || !strings.Contains(err.Error(), "network:v1")) {
				t.Errorf("error %v", err)
			}
			if left, err := os.ReadDir(cache.unfinished()); err != nil || len(left) > 0 {
				t.Errorf("unfinished files are left: %v, %v", left, err)
			}
		})
	}
}

func TestASlowRegistryIsLeft(t *testing.T) {
	s := newServer(t)
	s.push(t, "network:v1", "network")
	for name, slow := range map[string]func(*http.Request) bool{"before its first answer": func(*http.Request) bool { return true }, "within a layer": isBlob} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !slow(r) {
					return false
				}
				if isBlob(r) {
					_, _ = io.WriteString(w, "a part")
					w.(http.Flusher).Flush()
				}
				cancel() // as when its deadline passes
				<-r.Context().Done()
				return true
			})
			_, err := s.client(t, newCache(t)).Fetch(ctx, Request{Reference: s.ref(t, "network:v1")})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	s := newServer(t)
	s.push(t, "network:v1", "network")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "ada" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	for name, tc := range map[string]struct {
		password string
		works    bool
	}{"the right ones": {"secret", true}, "others": {"hidden-word", false}} {
		t.Run(name, func(t *testing.T) {
			keychain, err := NewKeychain(map[string][]byte{".dockerconfigjson": fmt.Appendf(nil, `{"auths": {%q: {"username": "ada", "password": %q}}}`,
				strings.TrimPrefix(s.URL, "https://"), tc.password)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.client(t, newCache(t)).Fetch(t.Context(), Request{Reference: s.ref(t, "network:v1"), Keychain: keychain})
			if (err == nil) != tc.works || err != nil && strings.Contains(err.Error(), tc.password) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	s := newServer(t)
	s.push(t, "network:v1", "network")
	host := strings.TrimPrefix(s.URL, "https://")
	for name, tc := range map[string]struct {
		options Options
		problem string
	}{
		"with the bundle":              {Options{CABundle: s.ca()}, ""},
		"without it":                   {Options{}, "name the certificate of its authority in the CA bundle"},
		"named as insecure":            {Options{Insecure: []string{host}}, ""},
		"another is named":             {Options{Insecure: []string{"registry.example.org"}}, "x509"},
		"named by its address alone":   {Options{Insecure: []string{"127.0.0.1"}}, ""},
		"a bundle with no certificate": {Options{CABundle: []byte("none")}, "no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(tc.options, newCache(t))
			if err == nil {
				_, err = c.Fetch(t.Context(), Request{Reference: s.ref(t, "network:v1")})
			}
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// runtimeFor is a function for a platform, with layers of random bytes.
func runtimeFor(t *testing.T, architecture string) v1.Image {
	t.Helper()
	base, err := random.Image(5000, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := base.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	if base, err = mutate.ConfigFile(base, config); err != nil {
		t.Fatal(err)
	}
	image, _, err := xpkg.Build([]xpkg.File{{Name: "crossplane.yaml", Text: "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: mine}\n"}}, nil, base)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestTheRuntimeOfAPlatform(t *testing.T) {
	s := newServer(t)
	pushed := s.pushImages(t, "function:v1", runtimeFor(t, "arm64"), runtimeFor(t, "amd64"))
	cache := newCache(t)
	s.setFault(nil)
	fetched, err := s.client(t, cache).Fetch(t.Context(), Request{Reference: s.ref(t, "function:v1")})
	if err != nil || fetched.Digest != pushed || strings.Join(fetched.Manifest.Platforms, " ") != "linux/arm64 linux/amd64" {
		t.Fatalf("%+v, %v", fetched, err)
	}
	if n := s.count("/blobs/"); n != 1 {
		t.Errorf("%d blobs were fetched to read the stream: the marked layer is one", n)
	}
	image, digest, err := s.client(t, cache).Image(t.Context(), Request{Reference: s.ref(t, "function:v1")}, v1.Platform{OS: "linux", Architecture: "arm64"})
	if err != nil || digest != pushed {
		t.Fatalf("%s, %v", digest, err)
	}
	read := func() {
		t.Helper()
		layers, err := image.Layers()
		if err != nil || len(layers) != 3 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		for _, l := range layers {
			content, err := l.Uncompressed()
			if err == nil {
				_, err = io.Copy(io.Discard, content)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	read()
	if config, err := image.ConfigFile(); err != nil || config.Architecture != "arm64" {
		t.Errorf("%+v, %v", config, err)
	}
	s.setFault(nil)
	read()
	if n := s.count(" "); n > 0 {
		t.Errorf("layers are read from the cache, but there were %d requests", n)
	}
	_, _, err = s.client(t, cache).Image(t.Context(), Request{Reference: s.ref(t, "function:v1")}, v1.Platform{OS: "linux", Architecture: "s390x"})
	if err == nil || !strings.Contains(err.Error(), "the package is not for linux/s390x; it is for linux/arm64, linux/amd64") {
		t.Errorf("error %v", err)
	}
}

func TestTags(t *testing.T) {
	s := newServer(t)
	for _, tag := range []string{"v1.0.0", "v1.1.0", "latest"} {
		s.push(t, "network:"+tag, "network")
	}
	got, err := s.client(t, newCache(t)).Tags(t.Context(), Request{Reference: s.ref(t, "network")})
	if err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := s.client(t, newCache(t)).Tags(t.Context(), Request{Reference: s.ref(t, "other")}); err == nil || !strings.Contains(err.Error(), "there is no such package") {
		t.Errorf("error %v", err)
	}
}

func TestPushNeedsATag(t *testing.T) {
	s := newServer(t)
	for _, ref := range []string{"network", "network@sha256:" + strings.Repeat("a", 64), "network:v1@sha256:" + strings.Repeat("a", 64)} {
		if _, err := s.client(t, nil).Push(t.Context(), s.ref(t, ref), nil, nil, nil); err == nil || !strings.Contains(err.Error(), "under a tag") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestManifestsThatAreTwoThings(t *testing.T) {
	hash := `{"digest": "sha256:` + strings.Repeat("a", 64) + `"}`
	for name, tc := range map[string]struct{ text, problem string }{
		"an image":         {`{"config": ` + hash + `, "layers": [` + hash + `]}`, ""},
		"an index":         {`{"manifests": [` + hash + `]}`, ""},
		"both":             {`{"config": ` + hash + `, "manifests": [` + hash + `]}`, "as an index"},
		"neither":          {`{"schemaVersion": 1, "fsLayers": []}`, "no longer uses"},
		"not JSON":         {`nothing`, "cannot be read"},
		"a digest that is": {`{"config": {"digest": "none"}}`, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseManifest([]byte(tc.text))
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("error %v", err)
			}
		})
	}
}
