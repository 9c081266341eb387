// Package install decides what is written to install a CustomResourceDefinition, and which
// annotations it has: the digest of what was applied, the accepted definition, and the
// conversion rules.
// See docs/design/0020-beside-other-engines.md.
//
// Pure: it decides from values alone.
package install

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// Actions. A foreign CustomResourceDefinition is one that this program didn't install: another controller may rely on
// its content, so it is not changed. The exception are kro's if they only lack fields that this program has: they are
// replaced. Nor is one of a newer schema changed: the API server would remove the fields that this program doesn't know
// from each object with its next write.
const (
	Create      Action = "Create"
	Update      Action = "Update"
	Replace     Action = "Replace"
	Unchanged   Action = "Unchanged"
	KeepForeign Action = "KeepForeign"
	KeepNewer   Action = "KeepNewer"
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
	// UnknownFields are the fields of a foreign one that this program does not know. It is not replaced then.
	UnknownFields []string
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
			keepFormer(w, found)
		}
		out = append(out, step)
	}
	return out, nil
}

// IsForeign reports whether another program has installed a CustomResourceDefinition.
func IsForeign(c *apiextensionsv1.CustomResourceDefinition) bool {
	_, ours := c.Annotations[v1alpha1.AppliedAnnotation]
	return !ours
}

// RecordTakeover records on a wanted CustomResourceDefinition when this program began to serve the kind, if another
// engine did before: the current one, nil for none, is of that engine or says so already. What the other engine has
// made until then has no signature of ours.
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

func (s *Step) compare() error {
	switch {
	case IsForeign(s.Current):
		return s.compareForeign()
	case s.Current.Annotations[v1alpha1.AppliedAnnotation] == inventory.AppliedDigest(s.Wanted):
		return s.compareUnchanged()
	case schemaNumber(s.Current.Annotations) > schemaNumber(s.Wanted.GetAnnotations()):
		return s.compareNewer()
	default:
		s.Action = Update
	}
	return nil
}

// It is 0 without one.
func schemaNumber(annotations map[string]string) uint64 {
	n, err := strconv.ParseUint(annotations[v1alpha1.SchemaAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (s *Step) decodeWanted() (wanted apiextensionsv1.CustomResourceDefinition, err error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.Wanted.Object, &wanted); err != nil {
		return wanted, fmt.Errorf("decode CustomResourceDefinition %s: %w", s.Wanted.GetName(), err)
	}
	return wanted, nil
}

// The CustomResourceDefinition has been applied as it is wanted. Another program may have written over it afterwards,
// which keeps the annotations.
func (s *Step) compareUnchanged() error {
	wanted, err := s.decodeWanted()
	if err != nil {
		return err
	}
	s.Action = Unchanged
	if versions, fields := MissingIn(s.Current, &wanted); len(versions)+len(fields) > 0 {
		s.Action = Update
	}
	return nil
}

func (s *Step) compareNewer() error {
	wanted, err := s.decodeWanted()
	if err != nil {
		return err
	}
	s.Action = KeepNewer
	if problem := s.incompatibility(&wanted); problem != "" {
		s.Action, s.Problem = Refused, problem
	}
	return nil
}

func (s *Step) compareForeign() error {
	wanted, err := s.decodeWanted()
	if err != nil {
		return err
	}
	s.Action = KeepForeign
	s.MissingVersions, s.MissingFields = MissingIn(s.Current, &wanted)
	if problem := s.incompatibility(&wanted); problem != "" {
		s.Action, s.Problem = Refused, problem
		return nil
	}
	if !slices.Contains(replacedGroups, wanted.Spec.Group) || len(s.MissingVersions)+len(s.MissingFields) == 0 {
		return nil
	}
	unknownVersions, unknownFields := MissingIn(&wanted, s.Current)
	if s.UnknownFields = append(unknownVersions, unknownFields...); len(s.UnknownFields) > 0 {
		return nil
	}
	s.Action = Replace
	return nil
}

// replacedGroups are the groups of the CustomResourceDefinitions that a takeover replaces. kro's are installed by the first
// installation of its Helm chart and by nothing later; Crossplane writes its own at each start.
var replacedGroups = []string{v1alpha1.GroupVersion.Group, "internal." + v1alpha1.GroupVersion.Group}

// MissingIn returns the served versions of a wanted CustomResourceDefinition that another does not serve, and the fields that
// the schemas of its versions lack, sorted.
func MissingIn(has, wants *apiextensionsv1.CustomResourceDefinition) (versions, fields []string) {
	for _, w := range wants.Spec.Versions {
		if !w.Served || w.Schema == nil {
			continue
		}
		i := slices.IndexFunc(has.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == w.Name && v.Served && v.Schema != nil
		})
		if i < 0 {
			versions = append(versions, w.Name)
			continue
		}
		fields = append(fields, missingFields(has.Spec.Versions[i].Schema.OpenAPIV3Schema, w.Schema.OpenAPIV3Schema, "")...)
	}
	slices.Sort(fields)
	return versions, slices.Compact(fields)
}

// It is why the controllers can't work with a CustomResourceDefinition that they do not replace, and the remedy; empty
// if they can.
func (s *Step) incompatibility(wanted *apiextensionsv1.CustomResourceDefinition) string {
	installed, remedy := "another program", ""
	if s.Action == KeepNewer {
		installed, remedy = "a newer release", "use that release of this program"
	}
	about := "CustomResourceDefinition " + s.Current.Name + " exists, was installed by " + installed + ", and "
	if got, want := s.Current.Spec.Names.Kind, wanted.Spec.Names.Kind; got != want {
		return fmt.Sprintf("%sis of kind %s instead of %s; %s", about, got, want, cmp.Or(remedy, "delete it if nothing uses it"))
	}
	if got, want := s.Current.Spec.Scope, wanted.Spec.Scope; got != want {
		return fmt.Sprintf("%shas scope %s instead of %s; %s", about, got, want, cmp.Or(remedy, "delete it if nothing uses it"))
	}
	if needed := crd.StorageVersion(wanted); !crd.Serves(s.Current, needed) {
		return fmt.Sprintf("%sserves %s, but not %s, which is needed; %s",
			about, servedBy(s.Current), needed, cmp.Or(remedy, "update it to a release that serves "+needed+", or delete it if nothing uses it"))
	}
	return ""
}

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

// They are sorted.
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
	if has.AdditionalProperties != nil && wants.AdditionalProperties != nil {
		out = append(out, missingFields(has.AdditionalProperties.Schema, wants.AdditionalProperties.Schema, at+".*")...)
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
