package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/resolve"
	"github.com/espalier-dev/espalier/internal/composition/packages/revision"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// ResolutionKey is the key of the Lock, under which the dependencies of all packages are resolved.
var ResolutionKey = object.Key{Group: LockKind.Group, Kind: LockKind.Kind, Name: v1beta1.LockName}

// Resolution knows what the last resolution has found. It is safe for concurrent use.
type Resolution struct {
	mu       sync.Mutex
	statuses map[object.Key]resolve.Status
}

// Status returns what is known of the dependencies of a package; known is false before it was resolved.
func (r *Resolution) Status(pkg object.Key) (s resolve.Status, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known = r.statuses[pkg]
	return s, known
}

// publish returns the packages with a changed status.
func (r *Resolution) publish(all map[object.Key]resolve.Status) (changed []object.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range all {
		if before, known := r.statuses[key]; !known || before != s {
			changed = append(changed, key)
		}
	}
	r.statuses = all
	return changed
}

// Locks resolves the dependencies of all packages. It installs what they need, and writes the Lock.
type Locks struct {
	Config
}

// installed is a package as the resolution sees it.
type installed struct {
	key  object.Key
	raw  *unstructured.Unstructured
	pkg  *anyPackage
	ref  xpkg.Reference
	err  error
	sum  resolve.Package
	last *anyRevision // the newest active revision
}

type lockState struct {
	lease    *watch.Lease
	lock     *unstructured.Unstructured
	locked   []v1beta1.LockPackage
	packages []*installed
	result   resolve.Result
}

// Reconcile resolves. Each change of a package or of a revision brings the next one.
func (r *Locks) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if key != ResolutionKey {
		return reconcile.Done() // Crossplane uses no other
	}
	s := &lockState{lease: r.Hub.Begin(watch.Subscriber{Key: key})}
	defer s.lease.Commit()
	if r.Crossplane != nil && r.Crossplane.IsRunning(ctx) {
		return reconcile.RequeueAfter(crossplaneInterval)
	}
	if known, err := r.read(s); err != nil || !known {
		return resultOf(err)
	}
	facts := resolve.Facts{Dependencies: r.memoize(s), Tags: func(source string) resolve.Answer[[]string] { return r.tags(s, source) }}
	for _, p := range s.packages {
		facts.Packages = append(facts.Packages, p.sum)
	}
	s.result = resolve.Resolve(facts)
	statuses := map[object.Key]resolve.Status{}
	for i, p := range s.packages {
		statuses[p.key] = s.result.Statuses[i]
	}
	for _, changed := range r.Resolution.publish(statuses) {
		r.enqueueRevisions(s, changed)
	}
	for _, c := range s.result.Changes {
		if err := r.change(ctx, s, c); err != nil {
			return serving.ResultOf(err)
		}
	}
	out := r.write(ctx, s)
	if out.Err != nil {
		return out
	}
	client, err := r.Certificates.Ensure(ctx, s.lease, ClientSecret, clientLeaf("espalier"), nil)
	if err != nil && !errors.Is(err, errNotRead) {
		return reconcile.Fail(err)
	}
	return out.Within(client.renewal.Sub(r.Now()))
}

func (r *Locks) enqueueRevisions(s *lockState, pkg object.Key) {
	for _, p := range s.packages {
		if p.key == pkg && p.last != nil {
			r.Enqueue(object.Key{Group: pkg.Group, Kind: pkg.Kind + "Revision", Name: p.last.Name})
		}
	}
}

// read returns false until all is known: the lease enqueues the Lock.
func (r *Locks) read(s *lockState) (known bool, err error) {
	for _, kind := range PackageKinds {
		all, state := s.lease.Matching(kind, "", labels.Everything())
		revisions, of := s.lease.Matching(RevisionKind(kind), "", labels.Everything())
		if state.Phase != watch.Synced || of.Phase != watch.Synced {
			return false, nil
		}
		active, err := newestActive(revisions)
		if err != nil {
			return false, err
		}
		for _, o := range all {
			p, err := readInstalled(kind, o)
			if err != nil {
				return false, err
			}
			p.last = active[p.key.Name]
			s.packages = append(s.packages, p)
		}
	}
	slices.SortFunc(s.packages, compareAge)
	lock, state := s.lease.Object(LockKind, "", v1beta1.LockName)
	if state.Phase != watch.Synced {
		return false, nil
	}
	if s.lock = lock; lock != nil {
		decoded, err := decode[v1beta1.Lock](lock)
		if err != nil {
			return false, err
		}
		s.locked = decoded.Packages
	}
	return true, nil
}

// compareAge orders the oldest package first. Creation times are whole seconds, so of the packages of a second a healthy one goes
// first: a newer one must not displace it.
func compareAge(a, b *installed) int {
	unhealthy := func(p *installed) int {
		if p.last != nil && condition.Set(p.last.Status.Conditions).IsTrue(v1.TypeRevisionHealthy) {
			return 0
		}
		return 1
	}
	return cmp.Or(a.raw.GetCreationTimestamp().Compare(b.raw.GetCreationTimestamp().Time), unhealthy(a)-unhealthy(b), strings.Compare(a.key.String(), b.key.String()))
}

func readInstalled(kind schema.GroupVersionKind, o *unstructured.Unstructured) (*installed, error) {
	pkg, err := decode[anyPackage](o)
	if err != nil {
		return nil, err
	}
	p := &installed{key: object.Key{Group: kind.Group, Kind: kind.Kind, Name: o.GetName()}, raw: o, pkg: pkg}
	p.ref, p.err = parseReference(pkg.Spec.Package)
	p.sum = resolve.Package{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: o.GetName(), Source: p.ref.Source, Version: cmp.Or(p.ref.Tag, p.ref.Digest),
		Automatic: o.GetAnnotations()[AutomaticAnnotation] == "true", Skip: pkg.Spec.SkipDependencyResolution != nil && *pkg.Spec.SkipDependencyResolution}
	if p.err != nil {
		p.sum.Source, p.sum.Skip = pkg.Spec.Package, true // it is no source that another package can need
	}
	return p, nil
}

// newestActive returns the newest active revision of each package.
func newestActive(all []*unstructured.Unstructured) (map[string]*anyRevision, error) {
	out := map[string]*anyRevision{}
	for _, o := range all {
		one, err := decode[anyRevision](o)
		if err != nil {
			return nil, err
		}
		pkg := one.Labels[v1.PackageLabel]
		if one.Spec.DesiredState == v1.RevisionActive && (out[pkg] == nil || out[pkg].Spec.Revision < one.Spec.Revision) {
			out[pkg] = one
		}
	}
	return out, nil
}

// memoize returns what reads the dependencies of versions: from the Lock, which needs no registry, or from their images.
func (r *Locks) memoize(s *lockState) func(resolve.Reference) resolve.Answer[[]resolve.Dependency] {
	known := map[resolve.Reference]resolve.Answer[[]resolve.Dependency]{}
	for _, l := range s.locked {
		if !slices.ContainsFunc(s.packages, func(p *installed) bool { return p.last != nil && p.last.Name == l.Name }) {
			continue // the tag may have moved since
		}
		known[resolve.Reference{Source: l.Source, Version: l.Version}] = resolve.Answer[[]resolve.Dependency]{Value: resolve.FromLock(l, v1.GroupVersion.String()), Known: true}
	}
	return func(ref resolve.Reference) resolve.Answer[[]resolve.Dependency] {
		answer, ok := known[ref]
		if ok {
			return answer
		}
		request, ready, err := r.request(s, ref)
		switch {
		case err != nil:
			answer.Problem = err.Error()
		case ready:
			content := r.Images.Package(request)
			answer = resolve.Answer[[]resolve.Dependency]{Value: content.Value.Dependencies, Known: content.Known, Problem: content.Problem}
			if content.Known && content.Value.Problem != nil {
				answer = resolve.Answer[[]resolve.Dependency]{Problem: content.Value.Problem.Error()}
			}
		}
		known[ref] = answer
		return answer
	}
}

func (r *Locks) tags(s *lockState, source string) (answer resolve.Answer[[]string]) {
	request, ready, err := r.request(s, resolve.Reference{Source: source, Version: "tags"})
	switch {
	case err != nil:
		answer.Problem = err.Error()
	case ready:
		return r.Images.Tags(request)
	}
	return answer
}

// request is how a version is read: as its package is, or with the credentials of all packages, which are for their registries.
func (r *Locks) request(s *lockState, ref resolve.Reference) (Request, bool, error) {
	var settings v1.PackageSettings
	image := ref.String()
	if i := slices.IndexFunc(s.packages, func(p *installed) bool { return p.sum.Source == ref.Source }); i >= 0 {
		p := s.packages[i]
		settings = p.pkg.Spec.PackageSettings
		if p.sum.Version == ref.Version {
			image = p.pkg.Spec.Package
		}
	} else {
		for _, p := range s.packages {
			settings.PackagePullSecrets = union(settings.PackagePullSecrets, p.pkg.Spec.PackagePullSecrets)
		}
	}
	source, ready, err := r.readSource(s.lease, image, settings, ResolutionKey)
	return source.request, ready, err
}

func union(one, other []corev1.LocalObjectReference) []corev1.LocalObjectReference {
	out := slices.Clone(one)
	for _, ref := range other {
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// change installs a dependency, or changes its version.
func (r *Locks) change(ctx context.Context, s *lockState, c resolve.Change) error {
	image := resolve.Reference{Source: c.Package.Source, Version: c.Package.Version}.String()
	message := fmt.Sprintf("%s is needed by %s", image, strings.Join(slices.Compact(slices.Sorted(slices.Values(c.For))), ", "))
	if c.Package.Name != "" {
		i := slices.IndexFunc(s.packages, func(p *installed) bool { return p.sum == s.packageNamed(c.Package) })
		answer, err := r.Cluster.Patch(ctx, s.packages[i].raw, map[string]any{"spec": map[string]any{"package": image}}, Manager)
		if err == nil {
			r.Events.Event(answer, telemetry.Normal, eventInstall, message)
		}
		return err
	}
	kind := schema.FromAPIVersionAndKind(c.Package.APIVersion, c.Package.Kind)
	if !slices.Contains(PackageKinds, kind) {
		return nil // the message of what needs it says what is missing
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	o.SetName(revision.PackageName(c.Package.Source, object.Digest))
	o.SetAnnotations(map[string]string{AutomaticAnnotation: "true"})
	spec := map[string]any{"package": image}
	if secrets := r.secretsOf(s, c, 0); len(secrets) > 0 {
		var list []any
		for _, ref := range secrets {
			list = append(list, map[string]any{"name": ref.Name})
		}
		spec["packagePullSecrets"] = list
	}
	o.Object["spec"] = spec
	created, err := r.Cluster.Create(ctx, o, Manager)
	if existing := kube.ExistingObject(err); existing != nil {
		if ref, err := parseReference(stringAt(existing.Object, "spec", "package")); err == nil && ref.Source == c.Package.Source {
			return nil // its event is still to come
		}
		o.SetName(o.GetName()[:min(len(o.GetName()), 52)] + "-" + object.Digest(c.Package.Source)[:10]) // another package has that name
		created, err = r.Cluster.Create(ctx, o, Manager)
		if kube.IsNameTaken(err) {
			return nil
		}
	}
	if err == nil {
		r.Events.Event(created, telemetry.Normal, eventInstall, message)
	}
	return err
}

// packageNamed is the package with the version that it has now.
func (s *lockState) packageNamed(p resolve.Package) resolve.Package {
	for _, one := range s.packages {
		if one.sum.Kind == p.Kind && one.sum.Name == p.Name {
			return one.sum
		}
	}
	return resolve.Package{}
}

// secretsOf are the pull secrets of the packages that need a dependency, also indirectly.
func (r *Locks) secretsOf(s *lockState, c resolve.Change, depth int) (out []corev1.LocalObjectReference) {
	for _, parent := range c.For {
		for _, p := range s.packages {
			if p.sum.String() == parent || (resolve.Reference{Source: p.sum.Source, Version: p.sum.Version}).String() == parent {
				out = union(out, p.pkg.Spec.PackagePullSecrets)
			}
		}
		for _, other := range s.result.Changes {
			if (resolve.Reference{Source: other.Package.Source, Version: other.Package.Version}).String() == parent && depth < len(s.result.Changes) {
				out = union(out, r.secretsOf(s, other, depth+1))
			}
		}
	}
	return out
}

// write writes the Lock, if it differs.
func (r *Locks) write(ctx context.Context, s *lockState) reconcile.Result {
	packages := r.content(s)
	var encoded []any
	for _, p := range packages {
		encoded = append(encoded, asMap(p))
	}
	if s.lock == nil {
		if len(packages) == 0 {
			return reconcile.Done()
		}
		o := &unstructured.Unstructured{Object: map[string]any{"packages": encoded}}
		o.SetGroupVersionKind(LockKind)
		o.SetName(v1beta1.LockName)
		_, err := r.Cluster.Create(ctx, o, Manager)
		if kube.IsNameTaken(err) {
			err = nil
		}
		return resultOf(err)
	}
	o := &writer.Object{Unstructured: s.lock}
	if o.GetDeletionTimestamp() != nil {
		return r.writer().RemoveFinalizers(ctx, o, "lock.pkg.crossplane.io").OrDone()
	}
	if has, _, _ := unstructured.NestedSlice(s.lock.Object, "packages"); object.Digest(has) != object.Digest(append([]any{}, encoded...)) {
		err := r.writer().Write(o, func() (*unstructured.Unstructured, error) {
			return r.Cluster.Patch(ctx, o.Unstructured, map[string]any{"packages": append([]any{}, encoded...)}, Manager)
		})
		if err != nil {
			return serving.ResultOf(err)
		}
	}
	resolved := r.condition(s)
	status := maps.Clone(statusOf(o.Object))
	status["conditions"] = condition.Read(o.Unstructured).Mark(resolved, r.Now()).Unstructured()
	_, out := r.writer().WriteStatus(ctx, o, status)
	return out.OrDone()
}

// content has the active revisions with known dependencies.
func (r *Locks) content(s *lockState) []v1beta1.LockPackage {
	dependencies := r.memoize(s)
	var active []resolve.Locked
	for _, p := range s.packages {
		if p.last == nil || p.err != nil || s.result.Statuses[slices.Index(s.packages, p)].Duplicate {
			continue
		}
		ref, err := parseReference(p.last.Spec.Image)
		if err != nil {
			continue
		}
		sum := p.sum
		sum.Source, sum.Version = ref.Source, cmp.Or(ref.Tag, ref.Digest)
		if answer := dependencies(resolve.Reference{Source: sum.Source, Version: sum.Version}); answer.Known {
			active = append(active, resolve.Locked{Revision: p.last.Name, Package: sum, Dependencies: answer.Value})
		}
	}
	return resolve.Lock(active)
}

func (r *Locks) condition(s *lockState) v1alpha1.Condition {
	c := v1alpha1.Condition{Type: v1.TypeResolved, Status: condition.True, Reason: v1.ReasonResolutionSucceeded}
	var problems []string
	for i, status := range s.result.Statuses {
		if status.Problem != "" {
			problems = append(problems, s.packages[i].sum.String()+": "+status.Problem)
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		c.Status, c.Reason, c.Message = condition.False, v1.ReasonResolutionFailed, strings.Join(problems, "\n")
	}
	return c
}

// asMap encodes a value of the API.
func asMap(v any) map[string]any {
	raw, err := json.Marshal(v)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // values of these types always can be
	}
	return out
}
