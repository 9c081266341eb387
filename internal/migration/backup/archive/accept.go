package archive

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// TargetKind is what the cluster that an import writes to knows of a kind that it serves.
type TargetKind struct {
	// Custom reports whether the kind has a CustomResourceDefinition.
	Custom bool
	// Managed reports whether a provider serves it as a kind of managed resources.
	Managed bool
	// Definition is the definition whose instances have the kind; zero if there is none. The name
	// may be truncated to the length of a label value.
	Definition object.Key
}

// secretTypes are the types of Secrets that give access to the cluster that they are created in.
var secretTypes = []string{"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"}

// IsClusterCredential reports whether a Secret gives access to the cluster that it is in, or has
// the name of the signing key. An export omits it, and an import refuses it.
func IsClusterCredential(secret *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(secret.Object, "type")
	return secret.GetName() == v1alpha1.SigningKeySecret || slices.Contains(secretTypes, kind)
}

// acceptance is what the decision about one object depends on.
type acceptance struct {
	target map[schema.GroupKind]TargetKind
	// definers are the archive's definitions, by the kinds that they define.
	definers map[schema.GroupKind][]object.Key
	present  map[object.Key]bool
	// namespaces are those of the archive's objects.
	namespaces map[string]bool
	// secrets are the Secrets that the archive's configurations and compositions refer to.
	secrets map[[2]string]bool
	// revisions are the archive's GraphRevisions, by definition and number.
	revisions map[object.Key]map[int64]bool
}

// Refusals returns why an import accepts objects of the archive not, one text for each: an export
// writes no such object. The kinds of the target decide what a managed resource is, and which
// definition serves a kind; those that it does not serve yet are missing in it.
func (f File) Refusals(target map[schema.GroupKind]TargetKind) []string {
	a := acceptance{
		target: target, definers: map[schema.GroupKind][]object.Key{}, present: map[object.Key]bool{},
		namespaces: map[string]bool{}, secrets: map[[2]string]bool{}, revisions: map[object.Key]map[int64]bool{},
	}
	for _, d := range f.Sections[Definitions] {
		for _, gvk := range Defines(d) {
			a.definers[gvk.GroupKind()] = append(a.definers[gvk.GroupKind()], object.KeyOf(d))
		}
	}
	for _, section := range []Section{Configs, Compositions, Revisions} {
		for _, o := range f.Sections[section] {
			for _, at := range SecretsOf(o) {
				a.secrets[at] = a.secrets[at] || MayFollow(o, at[0], Selection{})
			}
		}
	}
	for _, o := range f.Objects() {
		a.present[object.KeyOf(o)] = true
		a.namespaces[o.GetNamespace()] = true
		if o.GroupVersionKind().GroupKind() == graphRevisionKind {
			of := DefinitionOf(o)
			if a.revisions[of] == nil {
				a.revisions[of] = map[int64]bool{}
			}
			a.revisions[of][Number(o)] = true
		}
	}
	var out []string
	for _, section := range AllSections {
		for _, o := range f.Sections[section] {
			if why := a.refuse(section, o); why != "" {
				out = append(out, fmt.Sprintf("%s of %s is not accepted: %s", object.KeyOf(o), o.GetAPIVersion(), why))
			}
		}
	}
	return out
}

// refuse returns why an object is not accepted; empty if it is.
func (a acceptance) refuse(section Section, o *unstructured.Unstructured) string {
	if HasStatus(o) && section != Managed && section != Instances {
		return "it has a status, which exports contain for composites and what they are composed of only"
	}
	if policy, deleting := Deleting(o); deleting && (section == Namespaces || policy != metav1.DeletePropagationBackground &&
		policy != metav1.DeletePropagationOrphan) {
		return "its annotation " + deletingAnnotation + " is not one that exports contain"
	}
	switch section {
	case Namespaces:
		if !a.namespaces[o.GetName()] {
			return "no object of the export is in this namespace"
		}
	case Secrets:
		return a.refuseSecret(o)
	case Revisions:
		return a.refuseRevision(o)
	case Definitions:
		return a.refuseDefinition(o)
	case Configs:
		return a.refuseConfig(o)
	case Managed:
		return a.refuseManaged(o)
	case Instances:
		return a.refuseInstance(o)
	case Functions, Compositions, Bindings, Usages:
	}
	return ""
}

func (a acceptance) refuseSecret(o *unstructured.Unstructured) string {
	switch {
	case !a.secrets[[2]string{o.GetNamespace(), o.GetName()}]:
		return "no provider configuration and no composition of the export is allowed to refer to it"
	case IsClusterCredential(o):
		return "a Secret of its type or name gives access to this cluster"
	}
	return ""
}

// refuseRevision refuses a revision without its composition or definition: it could be one of an
// existing one, which its instances would follow.
func (a acceptance) refuseRevision(o *unstructured.Unstructured) string {
	if of := RevisedBy(o); !a.present[of] {
		return fmt.Sprintf("%s is not in the export", of)
	}
	if n := Number(o); n < 1 || n > maxRevision {
		return fmt.Sprintf("its spec.revision is not between 1 and %d", maxRevision)
	}
	return ""
}

// refuseDefinition refuses a definition that serves by a revision that is not in the archive: one
// of a former definition of the name may exist in the cluster.
func (a acceptance) refuseDefinition(o *unstructured.Unstructured) string {
	text := o.GetAnnotations()[v1alpha1.ServedAnnotation]
	if text == "" {
		return ""
	}
	var served struct {
		ServingRevision int64 `json:"servingRevision"`
	}
	if err := json.Unmarshal([]byte(text), &served); err != nil {
		return "its annotation " + v1alpha1.ServedAnnotation + " cannot be decoded"
	}
	if n := served.ServingRevision; n != 0 && !a.revisions[object.KeyOf(o)][n] {
		return fmt.Sprintf("its serving revision %d is not in the export", n)
	}
	return ""
}

func (a acceptance) refuseConfig(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	kind, served := a.target[gk]
	if !served {
		return "" // the import reports that it is not served
	}
	for managed, k := range a.target {
		if kind.Custom && k.Managed && Configures(gk, managed.Group) {
			return ""
		}
	}
	return "no provider of this cluster has configurations of this kind"
}

func (a acceptance) refuseManaged(o *unstructured.Unstructured) string {
	kind, served := a.target[o.GroupVersionKind().GroupKind()]
	if served && !kind.Managed {
		return "its kind is neither a managed resource's nor defined in the export; exports contain no other kinds"
	}
	return ""
}

// refuseInstance refuses objects of kinds that a definition of the archive claims to define, and
// that something else serves.
func (a acceptance) refuseInstance(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	kind, served := a.target[gk]
	if !served {
		return ""
	}
	isDefiner := func(d object.Key) bool {
		by := kind.Definition
		return d.GroupKind() == by.GroupKind() && d.Namespace == by.Namespace && (d.Name == by.Name || object.LabelValue(d.Name) == by.Name)
	}
	if slices.ContainsFunc(a.definers[gk], isDefiner) {
		return ""
	}
	by := "another program"
	if kind.Definition.Name != "" {
		by = kind.Definition.String()
	}
	return fmt.Sprintf("%s of the export defines its kind, which %s defines in this cluster", a.definers[gk][0], by)
}
