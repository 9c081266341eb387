package managed

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
)

// TestASecretThatCannotBeWrittenIsTold is about a namespace that isn't there, say: it
// is no news of the managed resource, which nothing would come of.
func TestASecretThatCannotBeWrittenIsTold(t *testing.T) {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nowhere")
	if err := fmt.Errorf("write the connection secret: %w", redacted(err)); kube.IsStale(err) {
		t.Errorf("it is taken for a managed resource that has gone: %v", err)
	}
}

// TestAConnectionSecretIsWrittenWhenItHasTo is about what is noted of it, and what can be
// seen of it.
func TestAConnectionSecretIsWrittenWhenItHasTo(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetUID("1")
	p := publication{object: o, name: secretName{"prod", "db"}, connection: map[string][]byte{"endpoint": []byte("a"), "port": []byte("1")}, known: true}
	p.live = p.secret()
	o.SetAnnotations(map[string]string{publishedAnnotation: p.digest()})
	edit := func(fields ...string) func(*publication) {
		return func(p *publication) {
			p.live = p.live.DeepCopy()
			unstructured.RemoveNestedField(p.live.Object, fields...)
		}
	}
	noted := func(key, value string) func(*publication) {
		return func(p *publication) {
			p.object = p.object.DeepCopy()
			all := p.object.GetAnnotations()
			all[key] = value
			p.object.SetAnnotations(all)
		}
	}
	gone := func(p *publication) { p.live = nil }
	cases := map[string]struct {
		reason string
		is     []func(*publication)
		want   writeReason
		told   bool
	}{
		"It holds what it is to":             {reason: "nothing has happened"},
		"It holds more than that":            {reason: "that is others'", is: []func(*publication){func(p *publication) { _ = unstructured.SetNestedField(p.live.Object, "bWluZQ==", "data", "mine") }}},
		"It is to hold something else":       {reason: "the digest tells", is: []func(*publication){func(p *publication) { p.connection = map[string][]byte{"endpoint": []byte("b")} }}, want: newContent},
		"It is to hold less":                 {reason: "what isn't given any more is taken away", is: []func(*publication){func(p *publication) { p.connection = map[string][]byte{"endpoint": []byte("a")} }}, want: newContent},
		"It was another incarnation's":       {reason: "a copy has published nothing", is: []func(*publication){func(p *publication) { p.object = p.object.DeepCopy(); p.object.SetUID("2") }}, want: newContent},
		"Somebody has deleted it":            {reason: "whoever connects needs it", is: []func(*publication){gone}, want: restore},
		"Somebody has taken a key away":      {reason: "as well", is: []func(*publication){edit("data", "port")}, want: restore},
		"Somebody has taken the label off":   {reason: "nobody would be told of its deletion", is: []func(*publication){edit("metadata", "labels")}, want: restore},
		"Secrets can't be watched":           {reason: "that it isn't seen says nothing", is: []func(*publication){gone, func(p *publication) { p.known = false }}},
		"It was put back a moment ago":       {reason: "somebody else writes it as well", is: []func(*publication){gone, noted(restoredAnnotation, "2026-05-01T09:59:56Z")}, told: true},
		"It was put back a while ago":        {reason: "that has passed", is: []func(*publication){gone, noted(restoredAnnotation, "2026-05-01T09:59:55Z")}, want: restore},
		"It was put back by a clock ahead":   {reason: "that may be years", is: []func(*publication){gone, noted(restoredAnnotation, "2029-05-01T10:00:00Z")}, want: restore},
		"It was put back nobody knows when":  {reason: "somebody has written that", is: []func(*publication){gone, noted(restoredAnnotation, "soon")}, want: restore},
		"Another is to be given in a moment": {reason: "that isn't put back", is: []func(*publication){noted(publishedAnnotation, "x"), noted(restoredAnnotation, "2026-05-01T09:59:59Z")}, want: newContent},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := p
			p.live = p.live.DeepCopy()
			for _, edit := range tc.is {
				edit(&p)
			}
			if got, err := p.writeReason(now); got != tc.want || (err != nil) != tc.told {
				t.Errorf("%s: it is due: %d, with error %v", tc.reason, got, err)
			}
		})
	}
}
