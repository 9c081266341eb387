package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// deepLevels is the number of instances in the nest, as many as may be nested.
	deepLevels = 10
	// The budgets, in milliseconds, are in proportion to those of three nested instances.
	deepPropagation = 50. * deepLevels / 3
	deepDeletion    = 150. * deepLevels / 3
)

// deepDefinition is a definition of one resource, which gives its status.value on. The kind of the
// resource replaces "NESTED".
const deepDefinition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %[2]s}
spec:
  schema:
    apiVersion: v1alpha1
    kind: %[1]s
    group: bench.espalier.dev
    spec: {size: 'string | default="small"'}
    status: {value: "${nested.status.value}"}
  resources:
    - id: nested
      template: {apiVersion: bench.espalier.dev/v1alpha1, kind: NESTED, metadata: {name: "${schema.metadata.name}"}, spec: {size: "${schema.spec.size}"}}
`

// measureDeepNest measures how a status value propagates through ten nested instances, and how these
// are created and deleted.
func measureDeepNest(ctx context.Context, b *bench) error {
	var kinds []string
	for level, nested := deepLevels, "Leaf"; level > 0; level-- {
		kind := fmt.Sprintf("Deep%02d", level)
		if _, err := b.createDefinitions(ctx, strings.ReplaceAll(deepDefinition, "NESTED", nested), kind); err != nil {
			return err
		}
		kinds, nested = append(kinds, kind), kind
	}
	slices.Reverse(kinds) // the outermost is the first
	if _, err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	n, err := b.nest(ctx, kinds[0], plural(kinds[0]))
	if err != nil {
		return err
	}
	defer n.seen.stop()
	if err := n.warmUp(ctx); err != nil {
		return err
	}
	if err := n.measureDeep(ctx); err != nil {
		return err
	}
	return b.deleteDefinitions(ctx, kinds...)
}

func (n nest) measureDeep(ctx context.Context) error {
	name := numberedName("deep", 0)
	if err := n.create(ctx, name); err != nil {
		return err
	}
	if _, err := n.writeValue(ctx, name, "first", isReady(1)); err != nil {
		return err
	}
	var took []time.Duration
	r, err := n.countRequests(ctx, "change a status value below 10 nested instances", changes, requests{{"PATCH", "leaves/status"}: changes}, func() (err error) {
		took, err = n.measurePropagation(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := n.delete(ctx, name); err != nil {
		return err
	}
	deleted, err := n.measureDeepDeletion(ctx)
	if err != nil {
		return err
	}
	progress("%d nested instances: a value at the top after %.0f ms, deleted in %.0f ms", deepLevels, milliseconds(median(took)), milliseconds(median(deleted)))
	what := fmt.Sprintf("%d nested instances: ", deepLevels)
	n.add(
		row{Work: what + "from a changed value until the outermost status has it, p50", Unit: "ms", Value: milliseconds(median(took)),
			Samples: inMilliseconds(took), Budget: deepPropagation,
			Detail: fmt.Sprintf("%.1f requests per change", float64(r.of(work))/changes)},
		row{Work: what + "from a changed value until the outermost status has it, p99", Unit: "ms", Value: milliseconds(quantile(took, 0.99)),
			Budget: deepPropagation,
			Detail: fmt.Sprintf("of %d changes, at most %.0f ms", changes, milliseconds(most(took)))},
		row{Work: what + "deletion", Unit: "ms", Value: milliseconds(median(deleted)), Samples: inMilliseconds(deleted), Budget: deepDeletion,
			Detail: fmt.Sprintf("median of %d, at most %.0f ms", nests, milliseconds(most(deleted)))})
	return nil
}

// measureDeepDeletion creates and deletes nests, and returns how long each deletion took.
func (n nest) measureDeepDeletion(ctx context.Context) ([]time.Duration, error) {
	var all []time.Duration
	for i := range nests {
		name := numberedName("deleted", i)
		if err := n.create(ctx, name); err != nil {
			return nil, err
		}
		if _, err := n.writeValue(ctx, name, "first", isReady(1)); err != nil {
			return nil, err
		}
		took, err := n.delete(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}
