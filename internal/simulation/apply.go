package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// Applied is an object of a file.
type Applied struct {
	Object *unstructured.Unstructured
	// Source names the file.
	Source string
	// Manager is the field manager that applies it on the server, whoever applied it before; empty for that one. It is set for
	// the objects of packages.
	Manager string
}

// Kinds finds how kinds are served; *kube.Kinds implements it.
type Kinds interface {
	Resolve(ctx context.Context, gvk schema.GroupVersionKind) (kube.Resource, error)
}

// Applier applies the objects of files, in the order in which their kinds are served. It applies them as
// whoever applied them before: with the field manager of a server-side apply, or as kubectl apply does on
// the client.
type Applier struct {
	// Client writes through the overlay.
	Client dynamic.Interface
	Kinds  Kinds
	// Namespace is that of namespaced objects without one.
	Namespace string
	// FieldManager applies objects on the server that nobody has applied yet. If it is empty, they are
	// applied as by kubectl apply on the client.
	FieldManager string

	pending     []Applied
	definitions []Applied
	problems    []preview.Problem
}

// clientManager is the field manager of kubectl apply on the client.
const clientManager = "kubectl-client-side-apply"

// definitionGroups are the API groups whose objects define kinds, and are applied first.
var definitionGroups = []string{"apiextensions.k8s.io", "kro.run", "apiextensions.crossplane.io", "pkg.crossplane.io"}

// IsDefinition says whether an object is one of those that define kinds, or how they are composed.
func IsDefinition(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	return slices.Contains(definitionGroups, gvk.Group) && (gvk.Group != v1alpha1.GroupVersion.Group ||
		gvk.Kind == v1alpha1.ResourceGraphDefinitionKind || gvk.Kind == v1alpha1.ResourceGroupKind)
}

// Defines says whether a definition is of a kind whose instances consist of objects.
func Defines(o *unstructured.Unstructured, kind schema.GroupKind) bool {
	field := func(path ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, path...)
		return value
	}
	switch o.GetKind() {
	case v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind:
		return field("spec", "schema", "kind") == kind.Kind && cmp.Or(field("spec", "schema", "group"), v1alpha1.GroupVersion.Group) == kind.Group
	case "CompositeResourceDefinition":
		return field("spec", "group") == kind.Group && (field("spec", "names", "kind") == kind.Kind || field("spec", "claimNames", "kind") == kind.Kind)
	}
	return false
}

// Add adds objects to apply.
func (a *Applier) Add(objects ...Applied) {
	a.pending = append(a.pending, objects...)
	for _, o := range objects {
		if IsDefinition(o.Object) {
			a.definitions = append(a.definitions, o)
		}
	}
}

// Next applies definitions first and then, once they are served, the other objects whose kinds are
// served. It returns whether it applied something: then more kinds may be served soon.
func (a *Applier) Next(ctx context.Context) (applied bool, err error) {
	defines := func(o Applied) bool { return IsDefinition(o.Object) }
	wave := a.pending
	if slices.ContainsFunc(a.pending, defines) {
		wave = slices.DeleteFunc(slices.Clone(a.pending), func(o Applied) bool { return !defines(o) })
	}
	var rest []Applied
	for _, o := range a.pending {
		if !slices.Contains(wave, o) {
			rest = append(rest, o)
			continue
		}
		resource, err := a.Kinds.Resolve(ctx, o.Object.GroupVersionKind())
		switch {
		case kube.IsNoKindMatch(err):
			rest = append(rest, o)
			continue
		case err != nil:
			return applied, err
		}
		applied = true
		if err := a.apply(ctx, resource, o); err != nil {
			if ctx.Err() != nil {
				return applied, ctx.Err()
			}
			a.refuse(o, err)
		}
	}
	if !applied && len(wave) < len(a.pending) { // definitions of unknown kinds hold nothing up
		a.refuseUnknown(wave)
		a.pending = slices.DeleteFunc(rest, defines)
		return a.Next(ctx)
	}
	a.pending = rest
	return applied, nil
}

// Problems are the objects that were refused, and those whose kind is not served after all.
func (a *Applier) Problems() []preview.Problem {
	a.refuseUnknown(a.pending)
	a.pending = nil
	return a.problems
}

func (a *Applier) refuse(o Applied, err error) {
	message := err.Error()
	if o.Object.GetKind() == "Secret" {
		message = kube.RedactedMessage(err) // it may quote values
	}
	a.problems = append(a.problems, preview.Problem{
		Object: object.KeyOf(o.Object).String(), Reason: "Refused", Message: diag.TruncateMiddle(message, maxMessage), Remedy: "correct it in " + o.Source,
	})
}

// maxMessage limits the message of a refusal, in bytes.
const maxMessage = 1000

func (a *Applier) refuseUnknown(all []Applied) {
	for _, o := range all {
		gvk := o.Object.GroupVersionKind()
		problem := preview.Problem{
			Object: object.KeyOf(o.Object).String(), Reason: "NoKind", Message: fmt.Sprintf("there is no kind %s in %s, nor do the files define it", gvk.Kind,
				gvk.GroupVersion()),
			Remedy: "plan it together with its definition, or correct apiVersion and kind in " + o.Source,
		}
		if i := slices.IndexFunc(a.definitions, func(d Applied) bool { return Defines(d.Object, gvk.GroupKind()) }); i >= 0 {
			of := a.definitions[i]
			problem.Message = fmt.Sprintf("%s does not serve %s in %s: it has problems, or other versions", object.KeyOf(of.Object), gvk.Kind, gvk.GroupVersion())
			problem.Remedy = fmt.Sprintf("correct the definition in %s, or apiVersion in %s", of.Source, o.Source)
		}
		a.problems = append(a.problems, problem)
	}
}

// apply applies one object.
func (a *Applier) apply(ctx context.Context, resource kube.Resource, applied Applied) error {
	o := applied.Object.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "status")
	of := dynamic.ResourceInterface(a.Client.Resource(resource.GVR))
	if resource.Namespaced {
		if o.GetNamespace() == "" {
			o.SetNamespace(a.Namespace)
		}
		of = a.Client.Resource(resource.GVR).Namespace(o.GetNamespace())
	} else {
		o.SetNamespace("") // the API server drops it
	}
	live, err := of.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	exists := err == nil
	manager := applied.Manager
	switch {
	case exists && manager != "":
		keepOrigin(o, live)
	case exists:
		manager = applyManager(live)
	}
	manager = cmp.Or(manager, a.FieldManager)
	if manager != "" {
		raw, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		force := true
		_, err = of.Patch(ctx, o.GetName(), types.ApplyYAMLPatchType, raw, metav1.PatchOptions{FieldManager: manager, Force: &force,
			FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	if err := annotate(o); err != nil {
		return err
	}
	if !exists {
		_, err := of.Create(ctx, o, metav1.CreateOptions{FieldManager: clientManager, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	patch, err := threeWayPatch(live, o)
	if err != nil || string(patch) == "{}" {
		return err
	}
	_, err = of.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: clientManager,
		FieldValidation: metav1.FieldValidationStrict})
	return err
}

// keepOrigin keeps what ties an object to the package that has installed it.
func keepOrigin(o, live *unstructured.Unstructured) {
	o.SetOwnerReferences(live.GetOwnerReferences())
	if digest, ok := live.GetAnnotations()[v1alpha1.AppliedAnnotation]; ok {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.AppliedAnnotation] = digest
		o.SetAnnotations(annotations)
	}
}

// annotate adds the annotation in which kubectl apply keeps what it applies, in the form that it has there:
// revisions of compositions are named by all annotations.
func annotate(o *unstructured.Unstructured) error {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, lastAppliedAnnotation)
	metadata, _, _ := unstructured.NestedMap(o.Object, "metadata")
	values := map[string]any{}
	for key, value := range annotations {
		values[key] = value
	}
	metadata["annotations"] = values // also if there are none
	o.Object["metadata"] = metadata
	raw, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	annotations[lastAppliedAnnotation] = string(raw)
	o.SetAnnotations(annotations)
	return nil
}

// ownManagers are prefixes of the field managers of controllers of instances.
var ownManagers = []string{"kro.run/", "espalier.dev/"}

// applyManager is the manager that has applied most of an object on the server; empty if none has. Those
// of controllers do not count: they add fields to objects that others apply.
func applyManager(live *unstructured.Unstructured) string {
	name, size := "", 0
	for _, e := range live.GetManagedFields() {
		isOwn := slices.ContainsFunc(ownManagers, func(prefix string) bool { return strings.HasPrefix(e.Manager, prefix) })
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && !isOwn && e.FieldsV1 != nil && len(e.FieldsV1.GetRawBytes()) > size {
			name, size = e.Manager, len(e.FieldsV1.GetRawBytes())
		}
	}
	return name
}

// threeWayPatch is the patch of kubectl apply on the client: it removes what was applied last and is no
// longer in the file. An object that was not applied loses nothing.
func threeWayPatch(live, wanted *unstructured.Unstructured) ([]byte, error) {
	last := live.GetAnnotations()[lastAppliedAnnotation]
	if last == "" {
		last = "{}"
	}
	original := map[string]any{}
	if err := json.Unmarshal([]byte(last), &original); err != nil {
		return nil, fmt.Errorf("its annotation %s is not JSON: %w", lastAppliedAnnotation, err)
	}
	unstructured.RemoveNestedField(original, "metadata", "annotations", lastAppliedAnnotation)
	before, err := json.Marshal(original)
	if err != nil {
		return nil, err
	}
	modified, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(before, modified, current)
}

// lastAppliedAnnotation is where kubectl apply keeps what it applied.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
