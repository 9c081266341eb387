package packages

import (
	"bytes"
	"net/http"
	"testing"
)

// TestARegistryThatMisbehaves: a layer that ends early, one that never comes, a registry that is busy and content that is too large. Each
// package says why it waits, others are installed meanwhile, and it is installed once the registry behaves.
func TestARegistryThatMisbehaves(t *testing.T) {
	w := newWorld(t)
	stopped := make(chan struct{})
	faults := map[string]struct {
		fault http.HandlerFunc
		says  string
	}{
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("a part"))
		}, "EOF"},
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "429 Too Many Requests"},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-stopped:
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}, ""},
	}
	mend := map[string]func(){}
	for name, f := range faults {
		w.push(t, "org/"+name+":v1.0.0", nil, w.meta("Configuration", name), definition("Of"+name))
		mend[name] = w.breaks("org/"+name, f.fault)
	}
	w.push(t, "org/good:v1.0.0", nil, w.meta("Configuration", "good"), definition("Good"))
	w.store(t, "org/huge:v1.0.0", imageWith(t, "package.yaml", 0o644, bytes.Repeat([]byte("# fill\n"), 10<<20))) // small in the registry
	w.start(t, w.config)
	for name := range faults {
		w.install(t, "Configuration", name, "org/"+name+":v1.0.0")
	}
	w.install(t, "Configuration", "huge", "org/huge:v1.0.0")
	for name, f := range faults {
		w.Await(t, configurationKind, "", name, hasConditions("Installed", "False", f.says))
	}
	w.Await(t, configurationKind, "", "huge", hasConditions("Installed", "False", "package.yaml"))
	w.install(t, "Configuration", "good", "org/good:v1.0.0")
	w.Await(t, configurationKind, "", "good", healthy)

	for _, again := range mend {
		again()
	}
	close(stopped)
	for name := range faults {
		w.Await(t, configurationKind, "", name, healthy)
	}
	w.Await(t, configurationKind, "", "good", healthy)
}
