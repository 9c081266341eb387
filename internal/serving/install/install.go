// Package install decides what is written to install a CustomResourceDefinition, and which
// annotations it has: the digest of what was applied, the accepted definition, and the
// conversion rules.
//
// Pure: it decides from values alone.
package install

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Action is what installing a CustomResourceDefinition does.
type Action string

// Actions. A foreign CustomResourceDefinition is one that this program didn't install: another
// controller may rely on its content, so it is never changed.
const (
	Create      Action = "Create"
	Update      Action = "Update"
	Unchanged   Action = "Unchanged"
	KeepForeign Action = "KeepForeign"
	Refused     Action = "Refused"
)

// Step is the decision about one CustomResourceDefinition.
type Step struct {
	Action Action
	// Wanted is the desired CustomResourceDefinition, signed; Current the existing one, or nil.
	Wanted  *unstructured.Unstructured
	Current *apiextensionsv1.CustomResourceDefinition
	// MissingVersions and MissingFields are what a foreign one doesn't serve: the API server
	// rejects objects of these versions, and drops these fields.
	MissingVersions, MissingFields []string
	// Problem is why it is refused, and the remedy.
	Problem string
}

// Plan decides how CustomResourceDefinitions are installed, given the existing ones. A foreign
// one is compatible if it serves the storage version of the wanted one, which is the one that
// the controllers read.
func Plan(wanted []*unstructured.Unstructured, current func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) ([]Step, error) {
	var out []Step
	for _, w := range wanted {
		w = w.DeepCopy()
		inventory.Sign(w, "")
		step := Step{Wanted: w, Action: Create}
		if found, exists := current(w.GetName()); exists {
			step.Current = found
			if err := step.compare(); err != nil {
				return nil, err
			}
		}
		out = append(out, step)
	}
	return out, nil
}

// IsForeign says whether another program has installed a CustomResourceDefinition.
func IsForeign(c *apiextensionsv1.CustomResourceDefinition) bool {
	_, ours := c.Annotations[v1alpha1.AppliedAnnotation]
	return !ours
}

// RecordTakeover sets on a wanted CustomResourceDefinition since when this program serves the kind,
// if another engine did before: the current one, nil for none, is of that engine or says so
// already. What the other engine has made until then has no signature of ours.
func RecordTakeover(wanted, current *apiextensionsv1.CustomResourceDefinition, now time.Time) {
	if current == nil {
		return
	}
	at := current.Annotations[v1alpha1.TakenOverAnnotation]
	if IsForeign(current) {
		at = now.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339) // what it made in this second counts
	}
	if at != "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, v1alpha1.TakenOverAnnotation, at)
	}
}

// compare decides about a CustomResourceDefinition that exists.
func (s *Step) compare() error {
	switch {
	case IsForeign(s.Current):
		return s.compareForeign()
	case s.Current.Annotations[v1alpha1.AppliedAnnotation] == inventory.AppliedDigest(s.Wanted):
		s.Action = Unchanged
	default:
		s.Action = Update
	}
	return nil
}

func (s *Step) compareForeign() error {
	var wanted apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.Wanted.Object, &wanted); err != nil {
		return fmt.Errorf("decode CustomResourceDefinition %s: %w", s.Wanted.GetName(), err)
	}
	s.Action = KeepForeign
	for _, w := range wanted.Spec.Versions {
		i := slices.IndexFunc(s.Current.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == w.Name && v.Served && v.Schema != nil
		})
		if i < 0 {
			s.MissingVersions = append(s.MissingVersions, w.Name)
			continue
		}
		s.MissingFields = append(s.MissingFields, missingFields(s.Current.Spec.Versions[i].Schema.OpenAPIV3Schema, w.Schema.OpenAPIV3Schema, "")...)
	}
	slices.Sort(s.MissingFields)
	s.MissingFields = slices.Compact(s.MissingFields)
	if problem := incompatibility(s.Current, &wanted); problem != "" {
		s.Action, s.Problem = Refused, problem
	}
	return nil
}

// incompatibility is why the controllers can't work with a foreign CustomResourceDefinition;
// empty if they can.
func incompatibility(current, wanted *apiextensionsv1.CustomResourceDefinition) string {
	about := "CustomResourceDefinition " + current.Name + " exists, was installed by another program, and "
	if got, want := current.Spec.Names.Kind, wanted.Spec.Names.Kind; got != want {
		return fmt.Sprintf("%sis of kind %s instead of %s; delete it if nothing uses it", about, got, want)
	}
	if got, want := current.Spec.Scope, wanted.Spec.Scope; got != want {
		return fmt.Sprintf("%shas scope %s instead of %s; delete it if nothing uses it", about, got, want)
	}
	if needed := crd.StorageVersion(wanted); !crd.Serves(current, needed) {
		return fmt.Sprintf("%sserves %s, but not %s, which is needed; update it to a release that serves %s, or delete it if nothing uses it",
			about, servedBy(current), needed, needed)
	}
	return ""
}

// servedBy lists the versions that a CustomResourceDefinition serves.
func servedBy(c *apiextensionsv1.CustomResourceDefinition) string {
	var names []string
	for _, v := range c.Spec.Versions {
		if v.Served {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return "no version"
	}
	return strings.Join(names, ", ")
}

// missingFields lists, sorted, the fields that a schema lacks and another has.
func missingFields(has, wants *apiextensionsv1.JSONSchemaProps, at string) []string {
	if has == nil || wants == nil || has.XPreserveUnknownFields != nil && *has.XPreserveUnknownFields {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(wants.Properties)) {
		here, want := at+"."+name, wants.Properties[name]
		if got, ok := has.Properties[name]; ok {
			out = append(out, missingFields(&got, &want, here)...)
		} else {
			out = append(out, here)
		}
	}
	if has.Items != nil && wants.Items != nil {
		out = append(out, missingFields(has.Items.Schema, wants.Items.Schema, at+"[]")...)
	}
	return out
}

// Error is the error of steps that are refused, after which nothing is installed; nil if none
// is.
func Error(steps []Step) error {
	var problems []string
	for _, s := range steps {
		if s.Action == Refused {
			problems = append(problems, s.Problem)
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("nothing was installed: %s", strings.Join(problems, ". "))
}
