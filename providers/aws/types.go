package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/crd"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/override"
	"github.com/espalier-dev/espalier/providers/aws/reference"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed"
)

type types struct {
	options  Options
	accounts *accounts
}

// Match returns the names of the types that a pattern matches, without those that are not supported. One that is named
// is among them, so its activation says why. If other types stand for a type, the error says which.
func (*types) Match(pattern string) ([]string, error) {
	if err := catalog.Instead(pattern); err != nil {
		return nil, err
	}
	names, err := catalog.Match(pattern)
	return slices.DeleteFunc(names, func(name string) bool { return name != pattern && override.Unsupported(name) != "" }), err
}

// TypeOf returns the type of a kind.
func (*types) TypeOf(kind schema.GroupKind) (name string, clusterScoped, ok bool) {
	found, ok := naming.Find(catalog.Names(), kind)
	return found.Type, found.ClusterScoped, ok
}

// callTimeout limits a call of a client. A search may read many resources.
const callTimeout = 2 * time.Minute

// pollInterval is how often a resource is observed that is read by itself: 1,000 of them take three reads a
// second of the about 25 that AWS allows for an account and region.
const pollInterval = 5 * time.Minute

// maxPollInterval is how often a resource is observed at least, if nothing has changed for a day.
const maxPollInterval = 20 * time.Minute

// Open returns the kind of a type and its CustomResourceDefinition.
func (c *types) Open(name string, clusterScoped bool) (managed.Kind, *apiextensionsv1.CustomResourceDefinition, error) {
	if reason := override.Unsupported(name); reason != "" {
		return managed.Kind{}, nil, fmt.Errorf("resource type %s is not supported: %s", name, reason)
	}
	t, err := catalog.Get(name)
	if err != nil {
		return managed.Kind{}, nil, err
	}
	definition, _, err := crd.For(t, clusterScoped)
	if err != nil {
		return managed.Kind{}, nil, fmt.Errorf("resource type %s: %w", name, err)
	}
	kind, err := naming.Of(name, clusterScoped)
	if err != nil {
		return managed.Kind{}, nil, err
	}
	references, err := referencesOf(t, clusterScoped)
	if err != nil {
		return managed.Kind{}, nil, err
	}
	hooks := hook.For(name)
	t.DropDescriptions() // it is kept as long as the kind is served
	served := cloudcontrol.NewKind(t, hooks, cloudcontrol.Options{Now: c.options.Now, IgnoresTokens: c.options.IgnoresTokens, Settle: c.options.Settle})
	return managed.For(managed.Definition[*unstructured.Unstructured]{
		Kind:       kind.GroupVersionKind(),
		New:        func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
		Caps:       served.Caps,
		References: references,
		Timeout:    callTimeout,
		// Reads of many resources at once are cheap.
		PollInterval:    map[bool]time.Duration{true: 0, false: pollInterval}[hooks.ReadMany != nil],
		MaxPollInterval: maxPollInterval,
		Connect: func(ctx context.Context, objects managed.Objects, m *unstructured.Unstructured) (managed.Client[*unstructured.Unstructured], error) {
			at, err := c.accounts.connect(ctx, objects, m, name)
			if err != nil {
				return nil, err
			}
			return served.Connect(ctx, at, objects, m)
		},
	}), definition, nil
}

func referencesOf(t *resourcetype.Type, clusterScoped bool) ([]managed.Reference, error) {
	var out []managed.Reference
	for _, r := range reference.Of(t) {
		if !catalog.Has(r.To) {
			continue
		}
		to, err := naming.Of(r.To, clusterScoped)
		if err != nil {
			return nil, err
		}
		one := managed.Reference{Field: fieldPath(r.Path), List: r.List, To: to.GroupVersionKind()}
		if len(r.Attribute) > 0 {
			one.Extract = attribute(r.Attribute)
		}
		out = append(out, one)
	}
	return out, nil
}

// The SDK writes it as in Rules[*].GroupId.
func fieldPath(p resourcetype.Path) string {
	return strings.ReplaceAll(p.String(), "."+resourcetype.Any, "[*]")
}

func attribute(path resourcetype.Path) func(*unstructured.Unstructured) string {
	at := append([]string{"status", "atProvider"}, path...)
	return func(o *unstructured.Unstructured) string {
		value, ok, err := unstructured.NestedFieldNoCopy(o.Object, at...)
		if !ok || err != nil || value == nil {
			return ""
		}
		return fmt.Sprint(value)
	}
}
