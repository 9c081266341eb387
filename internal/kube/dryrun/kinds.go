package dryrun

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/object"
)

// plannedKind is a kind of a CustomResourceDefinition that would be installed or changed. Its objects would then be
// admitted differently.
type plannedKind struct {
	kind, list string
	// installed reports that no server serves the kind.
	installed bool

	definition *apiextensionsv1.CustomResourceDefinition // nil if it cannot be read
	// builtIn returns how objects of a version of a kind of Kubernetes are admitted; nil for other kinds.
	builtIn func(version string) Admission

	mu         sync.Mutex
	admissions map[string]Admission // by version
	types      map[string]managedfields.TypeConverter
}

// Admission admits objects of a version of a kind that no API server serves, as it would. It must be safe for
// concurrent use.
type Admission interface {
	// UnknownFields lists the fields of an object that the kind does not have.
	UnknownFields(o *unstructured.Unstructured) []string
	// Admit returns an object as it would be stored, and what would be refused. Old is the stored object; nil for a creation.
	Admit(o, old *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList)
}

// It is nil if that is unknown.
func (k *plannedKind) admissionOf(version string) Admission {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a, known := k.admissions[version]; known {
		return a
	}
	var out Admission
	if k.builtIn != nil {
		out = k.builtIn(version)
	} else if k.definition != nil {
		if a, err := admission.New(k.definition, version); err == nil { // or else the server refuses the CustomResourceDefinition
			out = a
		}
	}
	k.admissions[version] = out
	return out
}

// They are nil if unknown.
func (k *plannedKind) typesOf(version string) managedfields.TypeConverter {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.types[version]; ok || k.definition == nil {
		return known
	}
	converter, err := admission.FieldTypes(k.definition, version)
	if err != nil {
		converter = nil // the server refuses such a CustomResourceDefinition
	}
	k.types[version] = converter
	return converter
}

func newPlannedKind(kind string, installed bool) *plannedKind {
	return &plannedKind{kind: kind, list: kind + "List", installed: installed, admissions: map[string]Admission{}, types: map[string]managedfields.TypeConverter{}}
}

// recordKind records the effect on a kind when its CustomResourceDefinition would be written. A definition that would
// be created is shown as established, because no server will set that condition. The entry's lock is held.
func (c call) recordKind(e *entry) error {
	if !c.isDefinition() || e.planned == nil {
		return nil
	}
	group, _, _ := unstructured.NestedString(e.planned.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(e.planned.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(e.planned.Object, "spec", "names", "kind")
	definition, err := crd.Decode(e.planned)
	if err != nil {
		definition = nil
	}
	resource := schema.GroupResource{Group: group, Resource: plural}
	planned := newPlannedKind(kind, e.stored == nil)
	planned.definition = definition
	c.overlay.mu.Lock()
	former := c.overlay.plannedKinds[resource]
	c.overlay.plannedKinds[resource] = planned
	c.overlay.mu.Unlock()
	c.overlay.converters.set(resource, definition)
	if e.stored != nil {
		if former != nil && former.definition != nil && definition != nil && apiequality.Semantic.DeepEqual(former.definition.Spec, definition.Spec) {
			return nil
		}
		return c.readmit(planned, resource)
	}
	if conditions, _, _ := unstructured.NestedSlice(e.planned.Object, "status", "conditions"); len(conditions) > 0 {
		return nil
	}
	now := e.planned.DeepCopy()
	names, _, _ := unstructured.NestedMap(now.Object, "spec", "names")
	now.Object["status"] = map[string]any{
		"acceptedNames": names,
		"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
			map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
		},
	}
	c.overlay.setPlanned(e, now)
	return nil
}

// Other objects have been admitted by the server.
func (c call) admit(o, old *unstructured.Unstructured) (*unstructured.Unstructured, *answer) {
	kind := c.overlay.plannedKind(c.info.resource)
	if kind == nil {
		return o, nil
	}
	if o.GetNamespace() != c.info.namespace { // an object of no namespace loses it
		o = o.DeepCopy()
		o.SetNamespace(c.info.namespace)
	}
	a := kind.admissionOf(o.GroupVersionKind().Version)
	if a != nil && c.request.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict {
		if unknown := a.UnknownFields(o); len(unknown) > 0 {
			for i, name := range unknown {
				unknown[i] = fmt.Sprintf("unknown field %q", name)
			}
			failed := failureAnswer(http.StatusBadRequest, metav1.StatusReasonBadRequest,
				fmt.Sprintf("%s in version %q cannot be handled as a %s: strict decoding error: %s", o.GetKind(), o.GroupVersionKind().Version, o.GetKind(),
					strings.Join(unknown, ", ")), nil)
			return nil, &failed
		}
	}
	if c.isDefinition() {
		return c.admitDefinition(o, old)
	}
	if kind.installed {
		at := field.NewPath("metadata")
		problems := append(metav1validation.ValidateLabels(o.GetLabels(), at.Child("labels")),
			apivalidation.ValidateAnnotations(o.GetAnnotations(), at.Child("annotations"))...)
		if failed := c.refusal(o, problems); failed != nil {
			return nil, failed
		}
		if data, ok := object.StoredData(o); ok {
			o = &unstructured.Unstructured{Object: maps.Clone(o.Object)}
			delete(o.Object, "stringData")
			o.Object["data"] = data
		}
	}
	if a == nil {
		return o, nil
	}
	out, problems := a.Admit(o, old)
	return out, c.refusal(o, problems)
}

func (c call) admitDefinition(o, old *unstructured.Unstructured) (*unstructured.Unstructured, *answer) {
	if old != nil && apiequality.Semantic.DeepEqual(o.Object["spec"], old.Object["spec"]) {
		return o, nil
	}
	definition, err := crd.Decode(o)
	if err != nil {
		return nil, c.refusal(o, field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())})
	}
	return o, c.refusal(o, admission.CheckDefinition(definition))
}

// It is nil if there are no problems.
func (c call) refusal(o *unstructured.Unstructured, problems field.ErrorList) *answer {
	if len(problems) == 0 {
		return nil
	}
	status := apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), c.info.name, problems).Status()
	return &answer{code: http.StatusUnprocessableEntity, raw: failureAnswer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, status.Message,
		status.Details).raw}
}

func (c call) isDefinition() bool {
	return c.info.resource.Group == "apiextensions.k8s.io" && c.info.resource.Resource == "customresourcedefinitions"
}

// AddKind adds a kind of Kubernetes that no server serves. Admissions returns how objects of a version are admitted.
func (o *Overlay) AddKind(resource schema.GroupResource, kind string, admissions func(version string) Admission) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := newPlannedKind(kind, true)
	k.builtIn = admissions
	o.plannedKinds[resource] = k
}

// It is nil for a kind that would be neither installed nor changed.
func (o *Overlay) plannedKind(r schema.GroupVersionResource) *plannedKind {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.plannedKinds[r.GroupResource()]
}

// It is nil for a kind that would not be installed.
func (o *Overlay) installedKind(r schema.GroupVersionResource) *plannedKind {
	if k := o.plannedKind(r); k != nil && k.installed {
		return k
	}
	return nil
}
