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

// TestAConnectionSecretThatCannotBeWrittenIsReported has an error that must not be mistaken for
// one about the managed resource, such as a missing namespace.
func TestAConnectionSecretThatCannotBeWrittenIsReported(t *testing.T) {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nowhere")
	if err := fmt.Errorf("write the connection secret: %w", redacted(err)); kube.IsStale(err) {
		t.Errorf("it is taken for a managed resource that has gone: %v", err)
	}
}

// TestAConnectionSecretIsWrittenIfItDiffers decides by the annotations of the managed resource,
// and by the cached secret.
func TestAConnectionSecretIsWrittenIfItDiffers(t *testing.T) {
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
		"It has the content":                              {reason: "nothing has changed"},
		"It has more keys":                                {reason: "they belong to other clients", is: []func(*publication){func(p *publication) { _ = unstructured.SetNestedField(p.live.Object, "bWluZQ==", "data", "mine") }}},
		"The content changes":                             {reason: "the digest shows that", is: []func(*publication){func(p *publication) { p.connection = map[string][]byte{"endpoint": []byte("b")} }}, want: newContent},
		"A key is no longer part of the content":          {reason: "it is removed", is: []func(*publication){func(p *publication) { p.connection = map[string][]byte{"endpoint": []byte("a")} }}, want: newContent},
		"A former incarnation has written it":             {reason: "a copy has published nothing", is: []func(*publication){func(p *publication) { p.object = p.object.DeepCopy(); p.object.SetUID("2") }}, want: newContent},
		"Another client has deleted it":                   {reason: "clients need it", is: []func(*publication){gone}, want: restore},
		"Another client has removed a key":                {reason: "as well", is: []func(*publication){edit("data", "port")}, want: restore},
		"Another client has removed the label":            {reason: "its deletion would not be observed", is: []func(*publication){edit("metadata", "labels")}, want: restore},
		"Secrets cannot be watched":                       {reason: "that it is not in the cache proves nothing", is: []func(*publication){gone, func(p *publication) { p.known = false }}},
		"It was restored recently":                        {reason: "another client writes it as well", is: []func(*publication){gone, noted(restoredAnnotation, "2026-05-01T09:59:56Z")}, told: true},
		"It was restored some time ago":                   {reason: "the interval has passed", is: []func(*publication){gone, noted(restoredAnnotation, "2026-05-01T09:59:55Z")}, want: restore},
		"It was restored in the future, by another clock": {reason: "that may be in years", is: []func(*publication){gone, noted(restoredAnnotation, "2029-05-01T10:00:00Z")}, want: restore},
		"The time of the restoration is invalid":          {reason: "another client has written it", is: []func(*publication){gone, noted(restoredAnnotation, "soon")}, want: restore},
		"The content changes right after a restoration":   {reason: "new content is not a restoration", is: []func(*publication){noted(publishedAnnotation, "x"), noted(restoredAnnotation, "2026-05-01T09:59:59Z")}, want: newContent},
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
