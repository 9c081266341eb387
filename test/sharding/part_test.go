package sharding

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// caching is a process that says what it has in its caches.
type caching struct {
	*program
	metrics string
}

func (w *world) launchCaching(t *testing.T, kubeconfig string) caching {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return caching{w.launchWithMetrics(t, kubeconfig, address), address}
}

// end ends the process as SIGTERM does.
func (c caching) end(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // by the signal
}

// children is how many children the replica has in its cache.
func (c caching) children(t *testing.T) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0 // it does not serve yet
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "espalier_watch_objects{") && strings.Contains(name, `kind="ConfigMap"`) && strings.Contains(name, `selection="managed"`) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	return 0
}

// TestAReplicaCachesItsPart has instances with a child in their own namespace and one elsewhere. Each child is in the
// cache of the replica that reconciles its instance, and in no other.
func TestAReplicaCachesItsPart(t *testing.T) {
	w := newWorld(t, 24)
	kubeconfig := testkit.Kubeconfig(t, w.Config)
	first, second := w.launchCaching(t, kubeconfig), w.launchCaching(t, kubeconfig)
	w.awaitReplicas(t, 2)
	w.Apply(t, suite.Graph("Thing", "spec: {value: string, elsewhere: string}, status: {value: '${second.data.value}'}", `
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}, data: {value: "${schema.spec.value}"}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-second", namespace: "${schema.spec.elsewhere}"}, data: {value: "${first.data.value}"}}
`))
	w.AwaitDefinitions(t, "thing")
	set := func(value string) {
		for i, ns := range w.namespaces {
			elsewhere := w.namespaces[(i+1)%len(w.namespaces)]
			w.Apply(t, fmt.Sprintf("\napiVersion: $GROUP/v1alpha1\nkind: Thing\nmetadata: {name: x, namespace: %s}\nspec: {value: %s, elsewhere: %s}\n", ns, value, elsewhere))
		}
		w.awaitValues(t, value)
	}
	children := 2 * len(w.namespaces)
	set("one")
	await := func(what string, of ...caching) {
		t.Helper()
		testkit.Poll(t, what, func() bool {
			sum := 0
			for _, c := range of {
				n := c.children(t)
				if n == 0 || len(of) > 1 && n > children*3/4 {
					return false
				}
				sum += n
			}
			return sum == children
		})
	}
	await("two caches with different children", first, second)

	third := w.launchCaching(t, kubeconfig)
	await("three caches with different children", first, second, third)
	set("two")
	second.end(t)
	await("the caches of those that are left", first, third)
	set("three")
	// What was taken over is watched: a child that another client deletes comes back.
	for i, ns := range w.namespaces {
		w.Delete(t, suite.ConfigMap, ns, "x-first")
		w.Delete(t, suite.ConfigMap, w.namespaces[(i+1)%len(w.namespaces)], "x-second")
	}
	for i, ns := range w.namespaces {
		w.Await(t, suite.ConfigMap, ns, "x-first", suite.HasField("three", "data", "value"))
		w.Await(t, suite.ConfigMap, w.namespaces[(i+1)%len(w.namespaces)], "x-second", suite.HasField("three", "data", "value"))
	}
	third.end(t)
	await("one cache with all children", first)
	for _, ns := range w.namespaces {
		w.Delete(t, w.Kind("Thing"), ns, "x")
	}
	for _, ns := range w.namespaces {
		w.AwaitGone(t, w.Kind("Thing"), ns, "x")
		w.AwaitGone(t, suite.ConfigMap, ns, "x-first")
		w.AwaitGone(t, suite.ConfigMap, ns, "x-second")
	}
}
