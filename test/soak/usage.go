package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// usage is what is used at a moment, by name and number.
type usage struct {
	// goroutines are by the function that they began in, and the first one that waits.
	goroutines map[string]int
	// watches are those of the hub, streams the open watches of all clients, as the API server counts
	// them, by kind.
	watches, streams map[string]int
	// objects are all objects that the API server has.
	objects map[string]int
	// files are the open files of this process; none where the system does not list them.
	files int
	heap  uint64
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d watches, %d streams, %d objects, %d files, %.1f MiB of heap",
		sum(u.goroutines), sum(u.watches), sum(u.streams), sum(u.objects), u.files, mebibytes(u.heap))
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }

func sum(of map[string]int) (n int) {
	for _, one := range of {
		n += one
	}
	return n
}

func (s *soak) measure(ctx context.Context) (u usage, err error) {
	if u.objects, err = s.countObjects(ctx); err != nil {
		return u, err
	}
	if u.streams, err = s.countStreams(ctx); err != nil {
		return u, err
	}
	u.watches = map[string]int{}
	if s.controllers != nil {
		for _, w := range s.controllers.Hub.Stats() {
			u.watches[strings.TrimSpace(w.Kind.GroupKind().String()+" "+w.Selection)]++
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(open)
	}
	runtime.GC()
	runtime.GC() // a pool keeps its objects during the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap = m.HeapAlloc
	u.goroutines, err = countGoroutines()
	return u, err
}

// countGoroutines reads the profile of goroutines: paragraphs of a number and a stack.
func countGoroutines() (map[string]int, error) {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return nil, err
	}
	out := map[string]int{}
	for paragraph := range strings.SplitSeq(text.String(), "\n\n") {
		number, stack, ok := strings.Cut(paragraph, " @ ")
		n, err := strconv.Atoi(number[strings.LastIndexByte(number, '\n')+1:])
		if !ok || err != nil {
			continue
		}
		var functions []string
		for line := range strings.SplitSeq(stack, "\n") {
			if fields := strings.Split(line, "\t"); strings.HasPrefix(line, "#") && len(fields) > 2 {
				name, _, _ := strings.Cut(fields[2], "+0x")
				functions = append(functions, name)
			}
		}
		if len(functions) > 0 {
			waits := slices.IndexFunc(functions, func(f string) bool {
				return !strings.HasPrefix(f, "runtime.") && !strings.HasPrefix(f, "internal/") && !strings.HasPrefix(f, "sync.")
			})
			out[functions[len(functions)-1]+" in "+functions[max(waits, 0)]] += n
		}
	}
	return out, nil
}

// countStreams reads the open watches from the metrics of the API server.
func (s *soak) countStreams(ctx context.Context) (out map[string]int, err error) {
	var raw []byte
	if err := s.retry(ctx, func(ctx context.Context) (err error) {
		raw, err = s.discovery.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	out = map[string]int{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		labels, isStream := strings.CutPrefix(line, "apiserver_longrunning_requests{")
		labels, value, _ := strings.Cut(labels, "} ")
		if n, err := strconv.ParseFloat(value, 64); isStream && strings.Contains(labels, `verb="WATCH"`) && err == nil && n > 0 {
			_, resource, _ := strings.Cut(labels, `resource="`)
			resource, _, _ = strings.Cut(resource, `"`)
			out[resource] += int(n)
		}
	}
	return out, nil
}

// countObjects lists all objects of all kinds, but events, which expire.
func (s *soak) countObjects(ctx context.Context) (map[string]int, error) {
	var lists []*metav1.APIResourceList
	if err := s.retry(ctx, func(context.Context) (err error) {
		lists, err = s.discovery.ServerPreferredResources()
		return err
	}); err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if r.Name == "events" || !slices.Contains(r.Verbs, "list") {
				continue
			}
			objects, err := s.client.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				if meta.IsNoMatchError(err) || isTransient(err) {
					continue
				}
				s.log.step("list %s: %v", r.Name, err)
				continue
			}
			for _, o := range objects.Items {
				out[strings.TrimSpace(gv.WithKind(r.Kind).GroupKind().String()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))]++
			}
		}
	}
	return out, nil
}

// quietTime is how long the API server's own watches must be the same before they are measured: its
// garbage collector learns every half minute which kinds there are, and the controllers keep watches for
// as long that nothing uses.
const quietTime = 40 * time.Second

// measureAtRest measures once the numbers of streams and watches do not change any more.
func (s *soak) measureAtRest(ctx context.Context) (usage, error) {
	var last string
	var u usage
	since := time.Now()
	err := s.await(ctx, "measure at rest", func(ctx context.Context) (err error) {
		streams, err := s.countStreams(ctx)
		if err != nil {
			return err
		}
		if now := fmt.Sprint(streams, len(s.controllers.Hub.Stats())); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quietTime {
			return errors.New("the number of watches still changes")
		}
		u, err = s.measure(ctx)
		return err
	})
	return u, err
}
