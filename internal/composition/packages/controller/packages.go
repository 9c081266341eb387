package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/revision"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Reasons of events, which the dialect's users know.
const (
	eventUnpack     = "UnpackPackage"
	eventInstall    = "InstallPackageRevision"
	eventTransition = "TransitionRevision"
	eventCollect    = "GarbageCollect"
)

// Packages reconciles the packages of one kind: it creates their revisions, and activates and deletes them.
type Packages struct {
	Config
	Kind schema.GroupVersionKind

	// reported is of object.Key: the ending.Count that the status of a deleted package has.
	reported sync.Map
}

// anyPackage has the fields that all kinds of packages share, and anyRevision the fields that their revisions share.
type (
	anyPackage  = v1.Function
	anyRevision = v1.FunctionRevision
)

type packageState struct {
	key       object.Key
	raw       *writer.Object
	pkg       *anyPackage
	lease     *watch.Lease
	read      map[string]*unstructured.Unstructured
	revisions []*anyRevision
	source    source
	plan      revision.Plan
	// problem is why there is no revision of the image.
	problem string
}

// Reconcile makes the revisions of a package those that its image needs, one write after the other.
func (r *Packages) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(r.Kind, "", key.Name)
	r.Enqueue(ResolutionKey)
	if !ok { // the garbage collector deletes its revisions
		r.Hub.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	s := &packageState{key: key, raw: &writer.Object{Unstructured: raw}, lease: r.Hub.Begin(watch.Subscriber{Key: key})}
	defer s.lease.Commit()
	if raw.GetDeletionTimestamp() != nil {
		return r.remove(ctx, s)
	}
	if out, waits := r.suspended(ctx, s.raw); waits {
		return out
	}
	if out := r.writer().AddFinalizers(ctx, s.raw, v1.Finalizer); out.IsFinal() {
		return out
	}
	raw = s.raw.Unstructured
	var err error
	if s.pkg, err = decode[anyPackage](raw); err != nil {
		return reconcile.Fail(err)
	}
	if known, err := r.readRevisions(s); err != nil || !known {
		return resultOf(err)
	}
	facts, known := r.facts(s)
	if !known {
		return reconcile.Done()
	}
	s.plan = revision.Compute(facts, r.Now())
	if out := r.act(ctx, s); out.IsFinal() {
		return out
	}
	if out := r.report(ctx, s); out.IsFinal() {
		return out
	}
	return reconcile.Done().Within(s.plan.After).Within(r.refreshAfter(s))
}

func resultOf(err error) reconcile.Result {
	if err != nil {
		return reconcile.Fail(err)
	}
	return reconcile.Done()
}

// readRevisions returns false until they are known: the lease enqueues the package.
func (r *Packages) readRevisions(s *packageState) (known bool, err error) {
	all, state := s.lease.Matching(RevisionKind(r.Kind), "", labels.SelectorFromSet(labels.Set{v1.PackageLabel: s.key.Name}))
	if state.Phase != watch.Synced {
		return false, nil
	}
	s.read = map[string]*unstructured.Unstructured{}
	for _, o := range all {
		one, err := decode[anyRevision](o)
		if err != nil {
			return false, err
		}
		s.read[o.GetName()] = o
		s.revisions = append(s.revisions, one)
	}
	return true, nil
}

func (r *Packages) facts(s *packageState) (f revision.Facts, known bool) {
	spec := s.pkg.Spec
	f = revision.Facts{Name: s.key.Name, Image: spec.Package, Policy: v1.ActivationAutomatic, HistoryLimit: 1, PullPolicy: corev1.PullIfNotPresent}
	if spec.RevisionActivationPolicy != nil {
		f.Policy = *spec.RevisionActivationPolicy
	}
	if spec.RevisionHistoryLimit != nil {
		f.HistoryLimit = *spec.RevisionHistoryLimit
	}
	if spec.PackagePullPolicy != nil {
		f.PullPolicy = *spec.PackagePullPolicy
	}
	for _, one := range s.revisions {
		f.Revisions = append(f.Revisions, readRevision(s.read[one.Name], one, r.runs()))
	}
	var err error
	if s.source, known, err = r.readSource(s.lease, spec.Package, spec.PackageSettings, s.key); err != nil || !known {
		if err != nil {
			s.problem = err.Error()
		}
		return f, known || err != nil
	}
	if revision.Compute(f, r.Now()).NeedsDigest {
		answer := r.Images.Package(s.source.request)
		f.Digest, s.problem = answer.Value.Digest, answer.Problem
		if answer.Known && answer.Value.Problem != nil {
			f.Digest, s.problem = "", answer.Value.Problem.Error()
		}
	}
	return f, true
}

func (r *Packages) runs() bool { return r.Kind.Kind != v1.ConfigurationKind }

// readRevision reads whether a revision serves from the conditions of its own generation.
func readRevision(raw *unstructured.Unstructured, one *anyRevision, runs bool) revision.Revision {
	out := revision.Revision{Name: one.Name, Image: one.Spec.Image, Number: one.Spec.Revision, Active: one.Spec.DesiredState == v1.RevisionActive}
	out.Ready = true
	kinds := []string{v1.TypeRevisionHealthy}
	if runs {
		kinds = append(kinds, v1.TypeRuntimeHealthy)
		out.Ready = one.Status.Endpoint != ""
	}
	all := condition.Read(raw)
	for _, kind := range kinds {
		c, _ := all.Get(kind)
		if c.Status != condition.True || c.ObservedGeneration != 0 && c.ObservedGeneration != one.Generation {
			out.Ready = false
		}
		if c.LastTransitionTime != nil && c.LastTransitionTime.After(out.Since) {
			out.Since = c.LastTransitionTime.Time
		}
	}
	return out
}

// refreshAfter is when the registry is asked again.
func (r *Packages) refreshAfter(s *packageState) time.Duration {
	if p := s.pkg.Spec.PackagePullPolicy; p != nil && *p == corev1.PullAlways {
		return refresh
	}
	return 0
}

// act carries out the steps.
func (r *Packages) act(ctx context.Context, s *packageState) reconcile.Result {
	for _, step := range s.plan.Steps {
		var err error
		reason := eventTransition
		switch step.Action {
		case revision.Create:
			reason, err = eventInstall, r.create(ctx, s, step.Revision)
		case revision.Update:
			err = r.write(ctx, s, s.read[step.Revision.Name], r.spec(s, step.Revision, true))
		case revision.Delete:
			reason, err = eventCollect, r.Cluster.DeleteIfUnchanged(ctx, s.read[step.Revision.Name])
		}
		if err != nil {
			return serving.ResultOf(err)
		}
		r.Events.Event(s.raw.Unstructured, telemetry.Normal, reason, step.Reason)
	}
	return r.settings(ctx, s)
}

// settings copies the settings of the package to its current revision.
func (r *Packages) settings(ctx context.Context, s *packageState) reconcile.Result {
	o, ok := s.read[s.plan.Current]
	if !ok {
		return reconcile.Result{}
	}
	var current revision.Revision
	for _, one := range s.revisions {
		if one.Name == s.plan.Current {
			current = readRevision(o, one, r.runs())
		}
	}
	wanted := r.spec(s, current, false)
	spec, _ := o.Object["spec"].(map[string]any)
	change := map[string]any{}
	for key, value := range wanted {
		if name, _ := spec[key].(string); name != "" && strings.HasPrefix(key, "tls") {
			continue // the running program has that Secret, whatever Crossplane has named it
		}
		if object.Digest(spec[key]) != object.Digest(value) {
			change[key] = value
		}
	}
	if len(change) == 0 {
		return reconcile.Result{}
	}
	if err := r.write(ctx, s, o, change); err != nil {
		return serving.ResultOf(err)
	}
	return reconcile.Result{}
}

// spec is the spec of a revision: what the revision itself has, or what it has from its package; nil removes a field.
func (r *Packages) spec(s *packageState, one revision.Revision, itself bool) map[string]any {
	if itself {
		state := v1.RevisionInactive
		if one.Active {
			state = v1.RevisionActive
		}
		return map[string]any{"desiredState": string(state), "image": one.Image, "revision": one.Number}
	}
	from, _ := s.raw.Object["spec"].(map[string]any)
	out := map[string]any{}
	for _, key := range []string{"packagePullSecrets", "packagePullPolicy", "ignoreCrossplaneConstraints", "skipDependencyResolution", "commonLabels", "commonAnnotations"} {
		out[key] = from[key]
	}
	if r.runs() {
		out["runtimeConfigRef"] = from["runtimeConfigRef"]
		out["tlsServerSecretName"] = s.key.Name + "-tls-server"
		if r.Kind.Kind == v1.ProviderKind {
			out["tlsClientSecretName"] = s.key.Name + "-tls-client"
		}
	}
	return out
}

func (r *Packages) create(ctx context.Context, s *packageState, one revision.Revision) error {
	kind := RevisionKind(r.Kind)
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	o.SetName(one.Name)
	o.SetLabels(map[string]string{v1.PackageLabel: s.key.Name})
	owner := metav1.NewControllerRef(s.raw, r.Kind)
	o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	spec := r.spec(s, one, true)
	for key, value := range r.spec(s, one, false) {
		if value != nil {
			spec[key] = value
		}
	}
	o.Object["spec"] = spec
	_, err := r.Cluster.Create(ctx, o, Manager)
	if existing := kube.ExistingObject(err); existing != nil && existing.GetLabels()[v1.PackageLabel] != s.key.Name {
		return fmt.Errorf("%s %s exists already, and is not of this package", kind.Kind, one.Name)
	} else if existing != nil {
		return nil // its event is still to come
	}
	return err
}

// write merges a change into the spec of a revision.
func (r *Packages) write(ctx context.Context, s *packageState, o *unstructured.Unstructured, spec map[string]any) error {
	answer, err := r.Cluster.Patch(ctx, o, map[string]any{"spec": spec}, Manager)
	if err == nil {
		s.read[o.GetName()] = answer
	}
	return err
}
