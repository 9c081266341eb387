package definition

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Wanted is the desired CustomResourceDefinition of the graph's kind.
func (v *session) Wanted(ctx context.Context) ([]*serving.Wanted, error) {
	if v.choice.candidate.compilation == nil {
		v.unpublished(ctx)
		return nil, nil
	}
	wanted := kind.For(v.choice.candidate.last.graph, v.choice.candidate.spec.Schema, v.owner,
		kind.Options{Version: v.Version, AdditionalPrinterColumns: v.AdditionalPrinterColumns})
	if v.choice.candidate.isUnrecorded() {
		if err := kind.RecordAccepted(wanted, v.source.spec); err != nil {
			return nil, err
		}
	}
	w := &serving.Wanted{CRD: wanted, RecordsTakeover: true, Owner: func(c *apiextensionsv1.CustomResourceDefinition) string {
		return otherOwner(c, v.owner, v.isGone)
	}}
	w.Review = func(ctx context.Context, current *apiextensionsv1.CustomResourceDefinition) (bool, error) {
		return v.mayPublish(ctx, w, current)
	}
	v.readiness = &w.Readiness
	return []*serving.Wanted{w}, nil
}

// mayPublish reports whether the CustomResourceDefinition may replace the current one without breaking its users.
func (v *session) mayPublish(ctx context.Context, w *serving.Wanted, current *apiextensionsv1.CustomResourceDefinition) (write bool, err error) {
	wanted := w.CRD
	if current == nil {
		return v.convertAt(wanted, nil), nil
	}
	moves := crd.StorageVersion(current) != crd.StorageVersion(wanted)
	if !moves && v.choice.target.Reason != revision.Latest && len(kind.Breaking(current, wanted)) > 0 && len(kind.MissingFields(current, wanted)) == 0 {
		wanted = kind.WithVersionsOf(wanted, current)
		w.CRD = wanted // the schema of a later revision serves an earlier one
	}
	if !v.convertAt(wanted, current) {
		return false, nil
	}
	configuration, err := install.Configuration(wanted)
	if err != nil {
		return false, err
	}
	if install.IsUpToDate(current, configuration) {
		*v.readiness = serving.ReadinessOf(current) // as in nearly every reconcile, which compares nothing
		return false, nil
	}
	replacement := kind.Replacement{
		Current: current, Wanted: wanted, InWaves: v.inWaves(),
		AllowBreaking: v.GetAnnotations()[v1alpha1.AllowBreakingAnnotation] == "true",
		NotRewritten:  v.memory.migration.Problem(),
	}
	for {
		switch step := replacement.Next(); step.Action {
		case kind.CheckDependants:
			others, err := v.dependants(ctx, wanted)
			if err != nil {
				return false, err
			}
			replacement.Dependants = kind.CheckResult{Done: true, Problem: others}
		case kind.CheckInstances:
			failing, err := v.inconvertible(ctx, wanted, current)
			if err != nil {
				return false, err
			}
			replacement.Inconvertible = kind.CheckResult{Done: true, Problem: failing}
		case kind.Keep:
			v.readiness.Reason, v.readiness.Message, v.readiness.Unknown = serving.Reason(step.Reason), step.Message, step.Passing
			return false, nil
		case kind.Replace:
			return true, nil
		}
	}
}

// inconvertible names the instances that cannot be converted to the wanted served versions.
func (r *Dialect) inconvertible(ctx context.Context, wanted, current *apiextensionsv1.CustomResourceDefinition) (string, error) {
	for _, version := range kind.ConvertedVersions(current) {
		instances, err := r.Cluster.List(ctx, crd.GroupKind(current).WithVersion(version), "")
		if conversion.IsFailure(err) {
			return kind.DescribeUnreadable(err), nil
		}
		if err != nil {
			return "", err
		}
		if failing, err := kind.Inconvertible(wanted, version, instances); failing != "" || err != nil {
			return failing, err
		}
	}
	return "", nil
}

func (v *session) inWaves() bool {
	return v.choice.waves.Any() && v.status.ServingRevision != 0 && v.status.ServingRevision != v.choice.candidate.number &&
		v.choice.target.Reason != revision.RolledBack
}

// unpublished sets the readiness of the kind while nothing new can be published: the current
// CustomResourceDefinition may still be served.
func (v *session) unpublished(ctx context.Context) {
	*v.readiness = serving.Readiness{Unknown: true, Reason: awaiting, Message: awaitingMessage(v1alpha1.DefinitionKindReady)}
	if current, _, ok := v.ownedCRD(ctx); ok && v.status.ServingRevision != 0 {
		*v.readiness = serving.ReadinessOf(current)
	}
}

// otherOwner names the other owner of a CustomResourceDefinition, as the end of a sentence; empty if it is the
// definition's own. isGone reports whether a definition does not exist any more.
func otherOwner(c *apiextensionsv1.CustomResourceDefinition, owner object.Definition, isGone func(object.Key) bool) string {
	if crd.BelongsTo(c, owner) {
		return ""
	}
	other, ok := ownerKey(c)
	controller := metav1.GetControllerOfNoCopy(c)
	switch {
	case ok && isGone(other):
		return "remains from " + other.String() + ", which no longer exists: to define the kind again, delete it with all its instances"
	case ok:
		return "is defined by " + other.String() + " already"
	case controller != nil:
		return "is controlled by " + controller.Kind + " " + controller.Name
	}
	return "exists already and is not from a definition"
}

// Changes of the other definition enqueue this one.
func (v *session) isGone(other object.Key) bool {
	if len(other.Name) >= content.LabelValueMaxLength {
		return false // the label may have a part of the name only
	}
	o, state := v.lease.Object(v1alpha1.GroupVersion.WithKind(other.Kind), other.Namespace, other.Name)
	return o == nil && state.Phase == watch.Synced
}
