package watches

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestSweepDefinitionsAreCreatedAndDeleted creates many definitions, each of a kind of its own with an
// instance, and deletes them: afterwards the controllers use no more than before.
func TestSweepDefinitionsAreCreatedAndDeleted(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := run(t, config)
	counter := newCounter(t, config, c)
	all := make([]*simpleKind, testkit.Size(15, 200)+1)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	for i := range all {
		all[i] = &simpleKind{client, group, ns, fmt.Sprint("Kind", i)}
	}
	if err := errors.Join(all[0].create(t.Context(), t), all[0].remove(t.Context())); err != nil {
		t.Fatal(err)
	}
	base := counter.baseline(t)

	began := time.Now()
	if err := concurrently(all[1:], func(p *simpleKind) error { return p.create(t.Context(), t) }); err != nil {
		t.Fatal(err)
	}
	created := time.Since(began)
	most := counter.count(t)
	began = time.Now()
	if err := concurrently(all[1:], func(p *simpleKind) error { return p.remove(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	deleted := time.Since(began)
	after := counter.awaitBaseline(t, base)
	testkit.Report(t, "watches: %d definitions with an instance each, created in %.1f s and deleted in %.1f s; before %s; with all %s; after %s",
		len(all)-1, created.Seconds(), deleted.Seconds(), base, most, after)
}

// concurrently calls do for all, with limited concurrency.
func concurrently[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	slots := make(chan struct{}, 16)
	var busy sync.WaitGroup
	for i, one := range all {
		slots <- struct{}{}
		busy.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(one)
		})
	}
	busy.Wait()
	return errors.Join(errs...)
}

// simpleKind is a definition of one ConfigMap.
type simpleKind struct {
	client          dynamic.Interface
	group, ns, kind string
}

func (p *simpleKind) definition() string {
	id, _, _ := strings.Cut(p.group, ".")
	return id + "-" + strings.ToLower(p.kind)
}

func (p *simpleKind) objects() dynamic.ResourceInterface {
	return p.client.Resource(schema.GroupVersionResource{Group: p.group, Version: "v1alpha1", Resource: strings.ToLower(p.kind) + "s"}).Namespace(p.ns)
}

func (p *simpleKind) create(ctx context.Context, t *testing.T) error {
	text := lifecycle{group: p.group, ns: p.ns}
	yaml := strings.NewReplacer("$NAME", p.definition(), "$KIND", p.kind).Replace(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $NAME}
spec:
  schema: {apiVersion: v1alpha1, kind: $KIND, group: $GROUP}
  resources:
    - id: only
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "$NAME-${schema.metadata.name}"}, data: {a: b}}
`)
	if err := text.apply(ctx, t, p.client.Resource(definitions), yaml); err != nil {
		return err
	}
	if err := await(ctx, p.client.Resource(definitions), p.definition(), testkit.IsReady); err != nil {
		return fmt.Errorf("definition %s: %w", p.definition(), err)
	}
	if err := text.apply(ctx, t, p.objects(), p.instance("x")); err != nil {
		return err
	}
	return await(ctx, p.objects(), "x", testkit.IsReady)
}

func (p *simpleKind) instance(name string) string {
	return "apiVersion: $GROUP/v1alpha1\nkind: " + p.kind + "\nmetadata: {name: " + name + ", namespace: $NS}\n"
}

// remove deletes the definition first, which waits for its instance.
func (p *simpleKind) remove(ctx context.Context) error {
	if err := p.client.Resource(definitions).Delete(ctx, p.definition(), metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := p.objects().Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return gone(ctx, p.client.Resource(definitions), p.definition(), sameName)
}
