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
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/object"
)

// plannedKind is a kind whose CustomResourceDefinition would be installed or changed: the server does
// not admit its objects as it would then.
type plannedKind struct {
	kind, list string
	// installed says that no server serves the kind.
	installed bool

	definition *apiextensionsv1.CustomResourceDefinition // nil if it cannot be read
	mu         sync.Mutex
	admissions map[string]*admission.Admission // by version
}

// admissionOf is how objects of a version would be admitted; nil if that is not known.
func (k *plannedKind) admissionOf(version string) *admission.Admission {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a, known := k.admissions[version]; known || k.definition == nil {
		return a
	}
	a, err := admission.New(k.definition, version)
	if err != nil {
		a = nil // the server refuses such a CustomResourceDefinition
	}
	k.admissions[version] = a
	return a
}

// recordKind records the effect on a kind when its CustomResourceDefinition would be
// written. A definition that would be created is shown as established, since no server will
// set that condition. The entry's lock is held.
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
	planned := &plannedKind{
		kind: kind, list: kind + "List", installed: e.stored == nil, definition: definition, admissions: map[string]*admission.Admission{},
	}
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

// admit returns an object of a planned kind as it would be stored, or the failure of the write. Other
// objects have been admitted by the server.
func (c call) admit(o, old *unstructured.Unstructured) (*unstructured.Unstructured, *answer) {
	kind := c.overlay.plannedKind(c.info.resource)
	if kind == nil {
		return o, nil
	}
	if c.isDefinition() {
		return c.admitDefinition(o, old)
	}
	if kind.installed {
		at := field.NewPath("metadata")
		problems := append(metav1validation.ValidateLabels(o.GetLabels(), at.Child("labels")), apivalidation.ValidateAnnotations(o.GetAnnotations(), at.Child("annotations"))...)
		if failed := c.refusal(o, problems); failed != nil {
			return nil, failed
		}
		if data, ok := object.StoredData(o); ok {
			o = &unstructured.Unstructured{Object: maps.Clone(o.Object)}
			delete(o.Object, "stringData")
			o.Object["data"] = data
		}
	}
	a := kind.admissionOf(o.GroupVersionKind().Version)
	if a == nil {
		return o, nil
	}
	if c.request.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict {
		if unknown := a.UnknownFields(o); len(unknown) > 0 {
			failed := failureAnswer(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("strict decoding error: unknown field %q", strings.Join(unknown, `", "`)), nil)
			return nil, &failed
		}
	}
	out, problems := a.Admit(o, old)
	return out, c.refusal(o, problems)
}

// admitDefinition returns a CustomResourceDefinition that no server checks, or the failure of the write.
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

// refusal is the answer to a write of an invalid object; nil if it has no problems.
func (c call) refusal(o *unstructured.Unstructured, problems field.ErrorList) *answer {
	if len(problems) == 0 {
		return nil
	}
	status := apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), c.info.name, problems).Status()
	return &answer{code: http.StatusUnprocessableEntity, raw: failureAnswer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, status.Message, status.Details).raw}
}

// isDefinition says whether the request is about a CustomResourceDefinition.
func (c call) isDefinition() bool {
	return c.info.resource.Group == "apiextensions.k8s.io" && c.info.resource.Resource == "customresourcedefinitions"
}

// AddKind adds a kind that no server serves: its objects are stored in the overlay as they are written,
// except that stringData of a Secret becomes data.
func (o *Overlay) AddKind(resource schema.GroupResource, kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.plannedKinds[resource] = &plannedKind{kind: kind, list: kind + "List", installed: true}
}

// plannedKind returns a kind that would be installed or changed; nil for others.
func (o *Overlay) plannedKind(r schema.GroupVersionResource) *plannedKind {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.plannedKinds[r.GroupResource()]
}

// installedKind returns a kind that would be installed; nil for others.
func (o *Overlay) installedKind(r schema.GroupVersionResource) *plannedKind {
	if k := o.plannedKind(r); k != nil && k.installed {
		return k
	}
	return nil
}
