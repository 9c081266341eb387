package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/observe/doctor"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// Bounds of what the overview reads.
const (
	maxCountedKinds = 200 // kinds that the overview lists the objects of
	// discoveryInterval is how often an open overview repeats discovery; while a definition's kind is not served, it begins with
	// lookupInterval, and doubles that.
	discoveryInterval = 30 * time.Second
	lookupInterval    = 2 * time.Second
	maxRefused        = 8 // kinds that a note names because the viewer may not read them
)

// Sections implements Cluster.
func (r *viewer) Sections() []string {
	found := map[string]bool{}
	served, _ := r.discover() // as far as it got
	for _, section := range served {
		found[section] = true
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// discover returns the kinds that can be watched, with their sections. Any viewer may read that.
func (r *viewer) discover() (map[schema.GroupKind]string, error) {
	served, err := r.Kinds.Served("list", "watch")
	out := map[schema.GroupKind]string{}
	for _, k := range served {
		out[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = sectionOf(k)
	}
	return out, err
}

// managedCategory is the category that kinds of managed resources are in, those of other providers too.
const managedCategory = "managed"

func sectionOf(k metav1.APIResource) string {
	switch {
	case k.Group == "pkg.crossplane.io" && slices.Contains([]string{"Configuration", "Function", "Provider"}, k.Kind):
		return SectionPackages
	case k.Group == v1alpha1.GroupVersion.Group && k.Kind == "Graph":
		return SectionGraphs
	case slices.Contains(k.Categories, managedCategory):
		return SectionManaged
	}
	return ""
}

// Definitions implements Cluster.
func (r *viewer) Definitions(ctx context.Context, states chan<- Definitions) error {
	return r.overview(ctx, true, func(o *overview) (done bool, err error) {
		o.reset()
		definitions, ready := o.readDefinitions()
		if !ready {
			return false, nil
		}
		for i, f := range definitions {
			definitions[i].Counts = o.count(ctx, f.Kinds)
		}
		o.finish("so these instances are not counted; if you are allowed to in one namespace, choose the definition and name the namespace")
		return false, reader.Send(ctx, states, Definitions{All: definitions, Problems: o.problems})
	})
}

// Objects implements Cluster.
func (r *viewer) Objects(ctx context.Context, section string, states chan<- Objects) error {
	return r.overview(ctx, section == "", func(o *overview) (done bool, err error) {
		o.reset()
		definitions, ready := o.readDefinitions()
		if !ready {
			return false, nil
		}
		state := Objects{Definitions: definitions}
		for _, gk := range o.kindsOf(section, definitions) {
			c := o.watchKind(ctx, gk)
			if c == nil {
				continue
			}
			if !c.HasEnded() {
				ready = false
				continue
			}
			all := c.All()
			if gk == compositionRevision {
				all = doctor.NewestRevisions(all)
			}
			state.Others = append(state.Others, all...)
		}
		if !ready {
			return false, nil
		}
		o.finish("so these objects are not shown; if you are allowed to in one namespace, choose the definition and name the namespace")
		state.Problems = o.problems
		return false, reader.Send(ctx, states, state)
	})
}

// kindsOf returns the kinds of a section without repetitions, those of definitions first.
func (o *overview) kindsOf(section string, definitions []page.DefinitionFacts) (kinds []schema.GroupKind) {
	add := func(gk schema.GroupKind) {
		if !slices.Contains(kinds, gk) {
			kinds = append(kinds, gk)
		}
	}
	for _, f := range definitions {
		for _, gk := range f.Kinds {
			add(gk)
		}
	}
	if slices.ContainsFunc(o.definitions, func(d *watched) bool { return d.place.Resource.Group == compositionRevision.Group }) {
		add(compositionRevision)
	}
	for _, gk := range slices.SortedFunc(maps.Keys(o.served), compareKinds) {
		if of := o.served[gk]; of != "" && (section == "" || section == of) {
			add(gk)
		}
	}
	return kinds
}

// compositionRevision is the kind of revisions of compositions: the newest one says why a composition is not served.
var compositionRevision = schema.GroupKind{Group: "apiextensions.crossplane.io", Kind: "CompositionRevision"}

func compareKinds(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }

// overview are the watches of an overview, and what one state of it says.
type overview struct {
	*watching
	definitions []*watched
	counted     map[schema.GroupKind]*counted
	served      map[schema.GroupKind]string // the served kinds with their sections
	unserved    error                       // why these are not all
	next        *time.Timer                 // of the next discovery
	interval    time.Duration
	missing     int // kinds that are not served
	due         atomic.Bool

	wanted      map[schema.GroupKind]bool
	problems    []string
	isForbidden bool
}

// counted are the objects of a kind.
type counted struct {
	*watched
	stop   context.CancelFunc
	list   page.List
	counts page.Counts
}

// overview calls read whenever something has changed.
func (r *viewer) overview(ctx context.Context, withDefinitions bool, read func(*overview) (done bool, err error)) error {
	return r.watching(ctx, func(ctx context.Context, w *watching) error {
		o := &overview{watching: w, counted: map[schema.GroupKind]*counted{}, interval: lookupInterval}
		o.served, o.unserved = r.discover()
		o.next = time.AfterFunc(discoveryInterval, func() { o.due.Store(true); o.Wake() })
		defer o.next.Stop()
		if withDefinitions {
			if err := o.watchDefinitions(ctx); err != nil {
				return err
			}
		}
		o.Wake()
		return o.Run(ctx, func() (done bool, err error) { return read(o) })
	})
}

// watchDefinitions watches the kinds of definitions that are served.
func (o *overview) watchDefinitions(ctx context.Context) error {
	for _, gk := range definitionKinds {
		m, err := o.mapping(gk)
		var noKind *errNoKind
		switch {
		case errors.As(err, &noKind): // of a dialect that is not served
		case err != nil:
			return err
		default:
			o.definitions = append(o.definitions, o.watch(ctx, m, Ref{}, "", nil))
		}
	}
	if len(o.definitions) == 0 {
		return errors.New("the API server has no kind of definitions, such as " + definitionKinds[0].String() + "; install Espalier in this cluster, or choose another context")
	}
	return nil
}

// reset begins a state, and finish ends it: kinds that it did not ask for are no longer watched. Unread says what follows where the
// objects of a kind cannot be read.
func (o *overview) reset() {
	o.wanted, o.problems, o.isForbidden = map[schema.GroupKind]bool{}, nil, false
	if o.due.Swap(false) {
		o.Kinds.Refresh()
		o.served, o.unserved = o.discover()
		if o.interval = min(2*o.interval, discoveryInterval); o.missing == 0 {
			o.interval = discoveryInterval
		}
		o.next.Reset(o.interval)
	}
	if o.isFull.Load() {
		for _, c := range o.counted {
			c.stop()
		}
		clear(o.counted)
		o.problems = append(o.problems, "instances are not counted or shown: "+o.tooMany().Error())
	}
}

func (o *overview) finish(unread string) {
	missing := 0
	for gk := range o.wanted {
		if _, isServed := o.served[gk]; !isServed {
			missing++
		}
	}
	if missing != o.missing && missing > 0 {
		o.interval = lookupInterval
		o.next.Reset(o.interval)
	}
	o.missing = missing
	for gk, c := range o.counted {
		if !o.wanted[gk] {
			c.stop()
			delete(o.counted, gk)
		}
	}
	var refused []string
	for _, gk := range slices.SortedFunc(maps.Keys(o.counted), compareKinds) {
		var forbidden *forbiddenError
		switch problem := o.counted[gk].problem(); {
		case errors.As(problem, &forbidden):
			refused = append(refused, forbidden.Query.String())
		case problem != nil:
			o.problems = append(o.problems, problem.Error())
		}
	}
	if more := len(refused) - maxRefused; more > 0 {
		refused = append(refused[:maxRefused], fmt.Sprintf("%d further kinds", more))
	}
	if len(refused) > 0 {
		o.isForbidden = true
		o.problems = append(o.problems, "you are not allowed to list and watch "+strings.Join(refused, ", ")+" in all namespaces, "+unread)
	}
	if left := len(o.wanted) - missing - len(o.counted); left > 0 && len(o.counted) >= maxCountedKinds {
		o.problems = append(o.problems, fmt.Sprintf("%d further kinds are not read: %d are the limit of a page", left, maxCountedKinds))
	}
	if groups, isPart := discovery.GroupDiscoveryFailedErrorGroups(o.unserved); isPart {
		for _, gv := range slices.SortedFunc(maps.Keys(groups), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
			o.problems = append(o.problems, "the kinds of "+gv.String()+" cannot be discovered")
		}
	} else if o.unserved != nil {
		o.problems = append(o.problems, "kinds cannot be discovered: "+reasonOf(o.unserved))
	}
	if o.isForbidden {
		o.problems = append(o.problems, "an administrator can permit it: the ClusterRole "+viewerRole+" has the verbs list and watch for definitions, and roles for the kinds of instances need the same verbs")
	}
}

// note notes a problem, with what follows from a refusal.
func (o *overview) note(err error, consequence string) {
	var forbidden *forbiddenError
	text := err.Error()
	if errors.As(err, &forbidden) {
		o.isForbidden = true
		text += consequence
	}
	o.problems = append(o.problems, text)
}

// readDefinitions returns the definitions without counts, once all have been read or refused.
func (o *overview) readDefinitions() (all []page.DefinitionFacts, ready bool) {
	for _, list := range o.definitions {
		if !list.HasEnded() {
			return nil, false
		}
		if problem := list.problem(); problem != nil {
			o.note(problem, ", so these definitions are not shown")
		}
		for _, d := range list.All() {
			all = append(all, page.DefinitionFacts{Definition: d, Kinds: kindsOf(d)})
		}
	}
	return all, true
}

// count counts the instances of kinds; nil while they are not known.
func (o *overview) count(ctx context.Context, kinds []schema.GroupKind) *page.Counts {
	var sum page.Counts
	isKnown := true
	for _, gk := range kinds {
		c := o.watchKind(ctx, gk)
		if c == nil || !c.HasSynced() {
			isKnown = false
			continue
		}
		if c.TakeChanged() {
			c.list.Set(nil, c.All(), time.Now())
			c.counts = c.list.Counts()
		}
		sum = sum.Add(c.counts)
	}
	if !isKnown {
		return nil
	}
	return &sum
}

// watchKind returns the objects of a kind; nil if it is not served, or there are too many kinds or objects.
func (o *overview) watchKind(ctx context.Context, gk schema.GroupKind) *counted {
	o.wanted[gk] = true
	if c := o.counted[gk]; c != nil {
		return c
	}
	if _, isServed := o.served[gk]; !isServed || o.isFull.Load() || len(o.counted) >= maxCountedKinds {
		return nil
	}
	m, err := o.mapping(gk)
	if err != nil {
		return nil // it has gone since
	}
	transform := trim
	if gk == compositionRevision {
		transform = withoutPipeline
	}
	counting, stop := context.WithCancel(ctx)
	c := &counted{watched: o.watch(counting, m, Ref{}, "", transform), stop: stop}
	o.counted[gk] = c
	return c
}

// withoutPipeline removes the spec of the revision of a composition, but for its number.
func withoutPipeline(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	number, _, _ := unstructured.NestedInt64(u.Object, "spec", "revision")
	u.Object["spec"] = map[string]any{"revision": number}
	u.SetManagedFields(nil)
	return u, nil
}

// Events implements Cluster.
func (r *viewer) Events(ctx context.Context, of Ref, states chan<- []*unstructured.Unstructured) error {
	m, err := r.mapping(schema.GroupKind{Kind: "Event"})
	if err != nil {
		return err
	}
	namespace := of.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where events about cluster-scoped objects are
	}
	return r.watching(ctx, func(ctx context.Context, w *watching) error {
		q := reader.QueryOf(m, namespace)
		q.Fields = fields.Set{"involvedObject.kind": of.Kind, "involvedObject.name": of.Name, "involvedObject.namespace": of.Namespace}.String()
		list := &watched{w.Watch(ctx, q, trim, nil), placeOf(m, namespace)}
		return w.Run(ctx, func() (done bool, err error) {
			if problem := list.problem(); problem != nil {
				return false, problem
			}
			if w.isFull.Load() {
				return false, w.tooMany()
			}
			if !list.HasSynced() {
				return false, nil
			}
			return false, reader.Send(ctx, states, slices.DeleteFunc(list.All(), func(e *unstructured.Unstructured) bool {
				about, _, _ := unstructured.NestedString(e.Object, "involvedObject", "apiVersion")
				return about != "" && schema.FromAPIVersionAndKind(about, "").Group != of.Group
			}))
		})
	})
}
