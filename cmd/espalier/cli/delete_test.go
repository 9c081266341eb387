package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestDeleteRequestsAndPrintsNextSteps(t *testing.T) {
	l := newLayers(t)
	l.layer(t, "top", "")
	where := "layer." + l.kind.Group + " top -n " + l.namespace
	for _, says := range []string{"deletion of Layer " + l.namespace + "/top requested", "is already being deleted"} {
		code, out, errs := l.call(t, "delete", "top")
		if code != 0 || !strings.Contains(out, says) || !strings.Contains(out, "espalier tree "+where+" --watch\n") || !strings.Contains(out, "espalier blockers "+where+"\n") {
			t.Errorf("exit code %d, %q, %q; want %q", code, out, errs, says)
		}
	}
	l.awaitDeletion(t, l.kind, "top")
}

func TestDeleteWatchesUntilAllIsGone(t *testing.T) {
	for output, last := range map[string]string{"table": " is gone\n", "json": `{"gone":true,"progress":{"removed":2,"total":2,"percent":100},"blockers":[]}` + "\n"} {
		t.Run("output "+output, func(t *testing.T) {
			l := newLayers(t)
			l.layer(t, "top", "")
			l.make(t, mapKind, "one", "top", "example.com/guard")
			l.make(t, mapKind, "two", "top", "")
			ended := l.watched(t, t.Context(), "top", "-o", output)
			l.awaitDeletion(t, l.kind, "top")
			l.Delete(t, mapKind, l.namespace, "two")
			l.Delete(t, mapKind, l.namespace, "one")
			l.tell(t, "top", 1, 2, l.blocker(mapKind, "one", report.HeldByFinalizer, "held"))
			ended.saw(t, "held")
			l.release(t, mapKind, "one")
			l.AwaitGone(t, mapKind, l.namespace, "one")
			l.release(t, l.kind, "top")
			code, out, errs := ended.result(t)
			if code != 0 || !strings.HasSuffix(out, last) {
				t.Errorf("exit code %d, %q\n%s", code, errs, out)
			}
			if says := "2 of 2 removed (100%)"; output == "table" && !strings.Contains(out, says) {
				t.Errorf("it doesn't say %q:\n%s", says, out)
			}
		})
	}
}

func TestDeleteTimesOut(t *testing.T) {
	l := newLayers(t)
	l.nest(t)
	l.layer(t, "slow", "")
	l.make(t, mapKind, "part", "slow", "example.com/busy")
	l.Delete(t, l.kind, l.namespace, "slow")
	l.tell(t, "slow", 0, 1)
	tests := map[string]struct {
		name string
		code int
		out  string
		errs string
	}{
		"blocked":    {"top", 3, "in Layer " + l.namespace + "/top > Layer " + l.namespace + "/middle > Layer " + l.namespace + "/low\n", "/top is not gone within 100ms: 1 object is blocking it\n"},
		"unfinished": {"slow", 4, "no blockers are known\n", "/slow is not gone within 100ms, and no blockers are known\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := l.call(t, "delete", tt.name, "--watch", "--timeout", "100ms")
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) {
				t.Errorf("exit code %d, %q\n%s", code, errs, out)
			}
		})
	}
	t.Run("for programs", func(t *testing.T) {
		code, out, _ := l.call(t, "delete", "top", "--watch", "--timeout", "100ms", "-o", "json")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var last deletionDocument
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || code != 3 {
			t.Fatalf("exit code %d, %v: %s", code, err, out)
		}
		if last.Gone || len(last.Blockers) != 1 || last.Blockers[0].Object.Name != "data" || last.Tree.Name != "top" {
			t.Errorf("the last document is %+v", last)
		}
	})
}

func TestDeleteDoesNotDeleteALaterObjectOfTheSameName(t *testing.T) {
	l := newLayers(t)
	l.layer(t, "top", "")
	first := l.Get(t, l.kind, l.namespace, "top").GetUID()
	ended := l.watched(t, t.Context(), "top")
	l.awaitDeletion(t, l.kind, "top")
	l.release(t, l.kind, "top")
	l.AwaitGone(t, l.kind, l.namespace, "top")
	l.layer(t, "top", "")
	if code, out, errs := ended.result(t); code != 0 || !strings.HasSuffix(out, " is gone\n") {
		t.Errorf("exit code %d, %q\n%s", code, errs, out)
	}

	flags := instanceFlags{cluster: clusterFlags{kubeconfig: l.file}, namespace: l.namespace}
	target, err := flags.find(t.Context(), io.Discard, "layers."+l.kind.Group, "top")
	if err != nil {
		t.Fatal(err)
	}
	asked := deletionRequest{instance: target, cascade: cascades["background"]}
	asked.target.UID = first
	if gone, err := asked.send(t.Context()); err != nil || !gone {
		t.Errorf("the first is not known to be gone: %v", err)
	}
	asked.target.UID = types.UID("somebody else's")
	if gone, err := asked.send(t.Context()); err != nil || !gone {
		t.Errorf("an incarnation that never was is not known to be gone: %v", err)
	}
	if second := l.Get(t, l.kind, l.namespace, "top"); second == nil || second.GetDeletionTimestamp() != nil {
		t.Error("the second is hit")
	}
}

func TestInterruptingTheWatchKeepsTheDeletionGoing(t *testing.T) {
	l := newLayers(t)
	l.layer(t, "top", "")
	ctx, interrupt := context.WithCancel(t.Context())
	ended := l.watched(t, ctx, "top")
	ended.saw(t, "Deleting")
	l.awaitDeletion(t, l.kind, "top")
	interrupt()
	code, _, errs := ended.result(t)
	if want := "espalier: stopped watching; the deletion of Layer " + l.namespace + "/top goes on\n"; code != 1 || errs != want {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func TestDeleteErrors(t *testing.T) {
	l := newLayers(t)
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"an object that does not exist": {nil, 1, "Layer " + l.namespace + "/nobody not found\n"},
		"such an object with --watch":   {[]string{"--watch"}, 1, "Layer " + l.namespace + "/nobody not found\n"},
		"an unknown --cascade":          {[]string{"--cascade", "up"}, 2, `not "up"`},
		"--timeout without --watch":     {[]string{"--timeout", "5m"}, 2, "requires --watch"},
		"a negative --timeout":          {[]string{"--watch", "--timeout", "-1s"}, 2, "must not be negative"},
		"--output without --watch":      {[]string{"-o", "json"}, 2, "requires --watch"},
		"an unknown output format":      {[]string{"--watch", "-o", "xml"}, 2, "must be one of table, json, yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := l.call(t, "delete", "nobody", tt.args...)
			if code != tt.code || !strings.Contains(errs, tt.says) || out != "" {
				t.Errorf("exit code %d, %q, %q; want %d and %q", code, out, errs, tt.code, tt.says)
			}
		})
	}
}

// watching is a deletion that is watched.
type watching struct {
	out   *lines
	errs  bytes.Buffer
	ended chan int
}

// watched requests a deletion and watches it in the background.
func (l *layers) watched(t *testing.T, ctx context.Context, name string, more ...string) *watching {
	t.Helper()
	w := &watching{out: &lines{come: make(chan string, 256)}, ended: make(chan int, 1)}
	go func() { w.ended <- Main(ctx, l.args("delete", name, append(more, "--watch")...), w.out, &w.errs) }()
	return w
}

// saw waits until a line with the text has been printed.
func (w *watching) saw(t *testing.T, text string) {
	t.Helper()
	for limit := time.After(testkit.Timeout); ; {
		select {
		case line := <-w.out.come:
			if strings.Contains(line, text) {
				return
			}
		case code := <-w.ended:
			t.Fatalf("exit code %d before %q was printed: %s\n%s", code, text, w.errs.String(), w.out.text.String())
		case <-limit:
			t.Fatalf("%q is not printed", text)
		}
	}
}

// result waits for the end.
func (w *watching) result(t *testing.T) (code int, stdout, stderr string) {
	t.Helper()
	select {
	case code = <-w.ended:
	case <-time.After(testkit.Timeout):
		t.Fatal("the command does not end")
	}
	return code, w.out.text.String(), w.errs.String()
}

func TestDeleteRequiresOneKind(t *testing.T) {
	target := func(group string, alternatives ...string) reader.Target {
		gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "services"}
		return reader.Target{Mapping: &meta.RESTMapping{Resource: gvr}, Alternatives: alternatives}
	}
	cases := map[string]struct {
		target reader.Target
		want   string
	}{
		"one kind":              {target("example.org"), ""},
		"one of the core group": {target(""), ""},
		"two kinds":             {target("example.org", "service.serving.example.com"), "service is ambiguous; name one of these kinds: services.example.org, service.serving.example.com"},
		"one of them core":      {target("", "service.serving.example.com"), "service is ambiguous; name one of these kinds: services.v1., service.serving.example.com"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := requireOneKind("service", tc.target); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
