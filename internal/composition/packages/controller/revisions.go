package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// revisionFinalizer is Crossplane's. Nothing is done for it here, but removing it.
const revisionFinalizer = "revision.pkg.crossplane.io"

// Revisions reconciles the revisions of packages of one kind.
type Revisions struct {
	Config
	Package schema.GroupVersionKind
}

type revisionState struct {
	key      object.Key
	raw      *writer.Object
	revision *anyRevision
	lease    *watch.Lease
	pkg      *unstructured.Unstructured
	// newest is the newest active revision of the package; the zero revision if none is.
	newest  *anyRevision
	source  source
	content Content
	// status is the status to write.
	status map[string]any
	after  time.Duration
	// idle says that the program has nothing to do yet.
	idle bool
}

// problem is why a revision is not healthy.
type problem struct {
	// reason is the reason of the event. waits says that the problem ends without an action of a user.
	reason string
	text   string
	waits  bool
}

func (p *problem) Error() string { return p.text }

// Reconcile installs the objects of the newest active revision of a package, and runs its program. An older active one keeps
// running until it becomes inactive.
func (r *Revisions) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(RevisionKind(r.Package), "", key.Name)
	r.Enqueue(ResolutionKey)
	if !ok {
		r.Hub.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	s := &revisionState{key: key, raw: &writer.Object{Unstructured: raw}, lease: r.Hub.Begin(watch.Subscriber{Key: key}), status: maps.Clone(statusOf(raw.Object))}
	defer s.lease.Commit()
	if raw.GetDeletionTimestamp() != nil {
		return r.writer().RemoveFinalizers(ctx, s.raw, revisionFinalizer).OrDone()
	}
	if out, waits := r.suspended(ctx, s.raw); waits {
		return out
	}
	if known, err := r.read(s); err != nil || !known {
		return resultOf(err)
	}
	switch {
	case s.revision.Spec.DesiredState != v1.RevisionActive:
		return r.deactivate(ctx, s)
	case s.newest.Name != key.Name:
		return r.keep(ctx, s)
	}
	return r.activate(ctx, s)
}

// read returns false until the package and its revisions are known.
func (r *Revisions) read(s *revisionState) (known bool, err error) {
	if s.revision, err = decode[anyRevision](s.raw.Unstructured); err != nil {
		return false, err
	}
	name := s.revision.Labels[v1.PackageLabel]
	pkg, of := s.lease.Object(r.Package, "", name)
	all, state := s.lease.Matching(RevisionKind(r.Package), "", labels.SelectorFromSet(labels.Set{v1.PackageLabel: name}))
	if of.Phase != watch.Synced || state.Phase != watch.Synced {
		return false, nil
	}
	if pkg == nil {
		return false, nil // the garbage collector deletes the revision
	}
	active, err := newestActive(all)
	s.pkg, s.newest = pkg, active[name]
	return true, err
}

func (r *Revisions) runs() bool { return r.Package.Kind != v1.ConfigurationKind }

// isExternal reports whether the programs of these packages run elsewhere.
func (r *Revisions) isExternal() bool { return r.External[r.Package.Kind] }

// reported is what that one has reported.
func reported(s *revisionState) v1alpha1.Condition {
	c, ok := condition.Read(s.raw.Unstructured).Get(v1.TypeRuntimeHealthy)
	if !ok {
		return v1alpha1.Condition{Type: v1.TypeRuntimeHealthy, Status: condition.Unknown, Reason: v1.ReasonUnknownHealth,
			Message: "the program runs elsewhere (packages.runtime): its operator sets this condition, status.endpoint and status.tlsServerSecretName"}
	}
	c.LastTransitionTime = nil
	return c
}

// activate ends with the status, whatever has failed.
func (r *Revisions) activate(ctx context.Context, s *revisionState) reconcile.Result {
	healthy, running := v1alpha1.Condition{Type: v1.TypeRevisionHealthy}, v1alpha1.Condition{Type: v1.TypeRuntimeHealthy}
	err := r.install(ctx, s)
	if errors.Is(err, errNotRead) {
		return reconcile.Done()
	}
	waits := r.judge(s, &healthy, err)
	var failed error
	if asProblem(err) == nil {
		failed = err
	}
	conditions := []v1alpha1.Condition{healthy}
	switch {
	case r.isExternal():
		_, grantErr := r.grant(ctx, s, nil)
		if errors.Is(grantErr, errNotRead) {
			return resultOf(failed)
		}
		if asProblem(grantErr) == nil {
			failed = cmp.Or(failed, grantErr)
		}
		conditions = append(conditions, reported(s))
	case r.runs():
		note, runErr := r.run(ctx, s, healthy.Status == condition.True)
		if errors.Is(runErr, errNotRead) {
			return resultOf(failed)
		}
		running.Message = note
		waits = r.judge(s, &running, runErr) && waits
		conditions = append(conditions, running)
		if startsSafely(s.status) {
			conditions = append(conditions, activity(s.idle))
		}
		if asProblem(runErr) == nil && failed == nil {
			failed = runErr
		}
	}
	if _, out := r.writeConditions(ctx, s.raw, s.status, waits, conditions...); out.IsFinal() {
		return out
	}
	return resultOf(failed).Within(s.after)
}

// judge sets a condition from an error, and records an event if it has become False. It reports whether it ends without a user.
func (r *Revisions) judge(s *revisionState, c *v1alpha1.Condition, err error) (waits bool) {
	c.Status, c.Reason = condition.True, v1.ReasonHealthy
	if err == nil {
		return true
	}
	c.Status, c.Reason, c.Message = condition.False, v1.ReasonUnhealthy, err.Error()
	reason := "SyncPackage"
	if p := asProblem(err); p != nil {
		if waits = p.waits; p.reason != "" {
			reason = p.reason
		}
	}
	if was, _ := condition.Read(s.raw.Unstructured).Get(c.Type); !waits && was.Message != c.Message {
		r.Events.Event(s.raw.Unstructured, telemetry.Warning, reason, c.Message)
	}
	return waits
}

func asProblem(err error) *problem {
	p, _ := err.(*problem) //nolint:errorlint // it is never wrapped
	return p
}

// install installs the objects of the package. What is installed completely needs no registry.
func (r *Revisions) install(ctx context.Context, s *revisionState) error {
	var known bool
	var err error
	if s.source, known, err = r.readSource(s.lease, s.revision.Spec.Image, s.revision.Spec.PackageSettings, s.key); err != nil {
		return &problem{reason: "ParsePackage", text: err.Error()}
	} else if !known {
		return errNotRead
	}
	if !r.isSettled(ctx, s) {
		if err := r.unpack(s); err != nil {
			return err
		}
		if err := r.checkVersion(s); err != nil {
			return err
		}
	}
	if err := r.checkDependencies(s); err != nil {
		return err
	}
	if s.content.Package == nil {
		return nil // settled
	}
	if err := r.establish(ctx, s); err != nil {
		return err
	}
	r.Images.Installed(s.source.request)
	return nil
}

// isSettled reports whether the content of the package was installed in this generation, and is there still. Crossplane does not
// always write the generation.
func (r *Revisions) isSettled(ctx context.Context, s *revisionState) bool {
	c, _ := condition.Read(s.raw.Unstructured).Get(v1.TypeRevisionHealthy)
	if c.Status != condition.True || c.ObservedGeneration != 0 && c.ObservedGeneration != s.raw.GetGeneration() || s.revision.Status.ResolvedImage == "" {
		return false
	}
	return r.areInstalled(ctx, s)
}

// unpack reads the package, and describes it in the status and in the metadata of the revision.
func (r *Revisions) unpack(s *revisionState) error {
	request := s.source.request
	if digest := digestIn(s.revision.Status.ResolvedImage); digest != "" && request.Reference.Digest == "" && request.Policy == corev1.PullAlways {
		request.Reference.Digest = digest // this revision is of that content, wherever the tag leads now
	}
	answer := r.Images.WithObjects(request)
	s.source.request = request
	switch {
	case answer.Known && answer.Value.Problem != nil:
		return &problem{reason: "LintPackage", text: answer.Value.Problem.Error()}
	case answer.Known:
	case answer.Problem != "":
		return &problem{reason: "ParsePackage", text: answer.Problem, waits: true}
	default:
		if c, ok := condition.Read(s.raw.Unstructured).Get(v1.TypeRevisionHealthy); ok && c.ObservedGeneration == s.raw.GetGeneration() {
			return errNotRead // what was found before a restart stays, until it is found again
		}
		return &problem{text: s.source.Image + " is being read from its registry", waits: true}
	}
	s.content = answer.Value
	if kind := s.content.Package.Meta.Kind; kind != r.Package.Kind {
		return &problem{reason: "ValidatePackage", text: fmt.Sprintf("%s is a package of the kind %s, not %s", s.source.Image, kind, r.Package.Kind)}
	}
	s.status["resolvedImage"] = r.imageToRun(s)
	set(s.status, "appliedImageConfigRefs", refs(s.source.Applied))
	var capabilities []any
	for _, c := range s.content.Package.Meta.Spec.Capabilities {
		capabilities = append(capabilities, c)
	}
	if len(capabilities) == 0 && r.Package.Kind == v1.FunctionKind {
		capabilities = []any{v1.CapabilityComposition}
	}
	set(s.status, "capabilities", capabilities)
	return nil
}

// imageToRun names the content by its digest, so the program matches the package even if the tag moves. With the policy
// Never, a node may have the image by its tag alone.
func (r *Revisions) imageToRun(s *revisionState) string {
	ref := s.source.request.Reference
	if s.source.request.Policy == corev1.PullNever {
		return s.source.Image
	}
	ref.Digest = s.content.Digest
	return ref.String()
}

func digestIn(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

func (r *Revisions) checkVersion(s *revisionState) error {
	constraints := s.content.Package.Meta.Spec.Crossplane
	if ignore := s.revision.Spec.IgnoreCrossplaneConstraints; constraints == nil || ignore != nil && *ignore {
		return nil
	}
	accepts, err := semver.NewConstraint(constraints.Version)
	if err == nil && accepts.Check(semver.MustParse(r.Version)) {
		return nil
	}
	return &problem{reason: "InstallPackageRevision", text: fmt.Sprintf("it needs Crossplane %s, and this program is compatible with %s; set spec.ignoreCrossplaneConstraints to install it anyway",
		constraints.Version, r.Version)}
}

func (r *Revisions) checkDependencies(s *revisionState) error {
	if skip := s.revision.Spec.SkipDependencyResolution; skip != nil && *skip {
		return nil
	}
	status, known := r.Resolution.Status(object.Key{Group: r.Package.Group, Kind: r.Package.Kind, Name: s.pkg.GetName()})
	if !known {
		return errNotRead // the resolution enqueues the revision
	}
	set(s.status, "foundDependencies", status.Found)
	set(s.status, "installedDependencies", status.Installed)
	set(s.status, "invalidDependencies", status.Invalid)
	if status.Problem != "" {
		return &problem{reason: "ResolveDependencies", text: "cannot resolve package dependencies: " + status.Problem, waits: status.Waits}
	}
	return nil
}

// keep lets the program of an older revision run as it is.
func (r *Revisions) keep(ctx context.Context, s *revisionState) reconcile.Result {
	if !r.runs() || r.isExternal() || s.revision.Status.ResolvedImage == "" {
		return reconcile.Done()
	}
	p, err := r.program(s)
	if err != nil {
		return reconcile.Done() // its own status has said so
	}
	state, err := r.Runtime.Start(ctx, s.lease, p)
	if errors.Is(err, errNotRead) || asProblem(err) != nil {
		return reconcile.Done()
	}
	return resultOf(err).Within(state.After)
}

// deactivate releases the objects of a revision, and stops its program.
func (r *Revisions) deactivate(ctx context.Context, s *revisionState) reconcile.Result {
	if err := r.release(ctx, s); err != nil {
		return resultOf(err)
	}
	conditions := []v1alpha1.Condition{{Type: v1.TypeRevisionHealthy, Status: condition.True, Reason: v1.ReasonHealthy}}
	if r.runs() && !r.isExternal() {
		if s.revision.Status.ResolvedImage != "" {
			p, err := r.program(s)
			if !errors.Is(err, errNotRead) { // one without its configuration is stopped, too
				err = r.Runtime.Stop(ctx, s.lease, p)
			}
			switch {
			case errors.Is(err, errNotRead):
				return reconcile.Done()
			case err != nil && asProblem(err) == nil:
				return resultOf(err)
			}
		}
		delete(s.status, "endpoint")
		conditions = append(conditions, v1alpha1.Condition{Type: v1.TypeRuntimeHealthy, Status: condition.True, Reason: v1.ReasonHealthy})
	}
	_, out := r.writeConditions(ctx, s.raw, s.status, false, conditions...)
	return out.OrDone()
}

// describe copies labels and annotations of the package's metadata to the revision.
func (r *Revisions) describe(ctx context.Context, s *revisionState) error {
	meta := s.content.Package.Meta.Metadata
	change := map[string]any{}
	add := func(field string, from, has map[string]string) {
		lacks := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(from)) {
			if key != v1.PackageLabel && has[key] != from[key] && !strings.HasPrefix(key, "kubectl.kubernetes.io/") {
				lacks[key] = from[key]
			}
		}
		if len(lacks) > 0 {
			change[field] = lacks
		}
	}
	add("labels", meta.Labels, s.raw.GetLabels())
	add("annotations", meta.Annotations, s.raw.GetAnnotations())
	if len(change) == 0 {
		return nil
	}
	err := r.writer().Write(s.raw, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, s.raw.Unstructured, map[string]any{"metadata": change}, Manager)
	})
	if kube.IsStale(err) {
		return errNotRead // the event of the other write brings the next reconcile
	}
	return err
}
