package pipeline

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Bounds are how much a step may want. Zero values stand for the defaults.
type Bounds struct {
	// Resources is how many resources a composite may have: 2,000.
	Resources int
	// Results and Conditions are how many a step may return: 256 and 64.
	Results, Conditions int
	// Requirements is how many a step may have: 128.
	Requirements int
	// Reserved are the types of conditions that are not for functions to set, which are
	// left out: Ready, Synced, Healthy and Responsive.
	Reserved []string
}

func (b Bounds) withDefaults() Bounds {
	for value, standard := range map[*int]int{&b.Resources: 2000, &b.Results: 256, &b.Conditions: 64, &b.Requirements: 128} {
		if *value == 0 {
			*value = standard
		}
	}
	if b.Reserved == nil {
		b.Reserved = []string{"Ready", "Synced", "Healthy", "Responsive"}
	}
	return b
}

// check returns an AnswerError if the answer to a request makes no sense. Desired
// resources are looked at when all steps have run: one may leave to another what the
// object is.
func (b Bounds) check(request *fnv1.RunFunctionRequest, response *fnv1.RunFunctionResponse) error {
	if response == nil {
		return &AnswerError{What: "is missing"}
	}
	if n := len(response.GetResults()); n > b.Results {
		return &AnswerError{At: "results", What: fmt.Sprintf("are %d, of %d allowed", n, b.Results)}
	}
	if ttl := response.GetMeta().GetTtl(); ttl != nil && (!ttl.IsValid() || ttl.AsDuration() < 0) {
		return &AnswerError{At: "meta.ttl", What: fmt.Sprintf("is no time to live: %d seconds and %d nanoseconds", ttl.GetSeconds(), ttl.GetNanos())}
	}
	if err := b.conditions(response.GetConditions()); err != nil {
		return err
	}
	if at, what := b.requirements(response.GetRequirements()); what != "" {
		return &AnswerError{At: at, What: what}
	}
	if fatal(response) != nil {
		return nil // what it wants is of no interest
	}
	return b.state(request, response)
}

func (b Bounds) state(request *fnv1.RunFunctionRequest, response *fnv1.RunFunctionResponse) error {
	resources := response.GetDesired().GetResources()
	// To forget the whole desired state is the usual mistake of functions that do not hand
	// on what they were given. Nothing is deleted because of it.
	if before := len(request.GetDesired().GetResources()); before > 0 && response.GetDesired() == nil {
		return &AnswerError{At: "desired", What: fmt.Sprintf("is missing, although %d resources were handed to the function", before)}
	}
	if n := len(resources); n > b.Resources {
		return &AnswerError{At: "desired.resources", What: fmt.Sprintf("are %d, of %d allowed", n, b.Resources)}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if what := unspeakable(name); what != "" {
			return &AnswerError{At: fmt.Sprintf("desired.resources: the name %.80q", name), What: what}
		}
	}
	return sameComposite(request.GetObserved().GetComposite().GetResource(), response.GetDesired().GetComposite().GetResource())
}

// unspeakable says what is wrong with a resource's name in the composition.
func unspeakable(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > 253:
		return "is longer than 253 bytes"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return "has a character that cannot be printed"
		}
	}
	return ""
}

// sameComposite refuses a desired composite that is another object than the observed.
func sameComposite(is, wanted *structpb.Struct) error {
	differ := func(field string, is, wanted *structpb.Struct) error {
		value := wanted.GetFields()[field]
		if value == nil || value.GetStringValue() == "" || value.GetStringValue() == is.GetFields()[field].GetStringValue() {
			return nil
		}
		return &AnswerError{At: "desired.composite", What: fmt.Sprintf("is another object: its %s is %.80q, not %q",
			field, value.GetStringValue(), is.GetFields()[field].GetStringValue())}
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if err := differ(field, is, wanted); err != nil {
			return err
		}
	}
	in := func(s *structpb.Struct) *structpb.Struct { return s.GetFields()["metadata"].GetStructValue() }
	for _, field := range []string{"name", "namespace", "uid"} {
		if err := differ(field, in(is), in(wanted)); err != nil {
			return err
		}
	}
	return nil
}

// conditionType is what Kubernetes lets a condition's type be.
var conditionType = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)

func (b Bounds) conditions(all []*fnv1.Condition) error {
	if n := len(all); n > b.Conditions {
		return &AnswerError{At: "conditions", What: fmt.Sprintf("are %d, of %d allowed", n, b.Conditions)}
	}
	for i, c := range all {
		if len(c.GetType()) > 316 || !conditionType.MatchString(c.GetType()) {
			return &AnswerError{At: fmt.Sprintf("conditions[%d].type", i), What: fmt.Sprintf("is no type of a condition: %.80q", c.GetType())}
		}
	}
	return nil
}

// requirements says what is wrong with requirements, and at which of them.
func (b Bounds) requirements(all *fnv1.Requirements) (at, what string) {
	extra := all.GetExtraResources() //nolint:staticcheck // functions still ask this way
	if n := len(all.GetResources()) + len(extra) + len(all.GetSchemas()); n > b.Requirements {
		return "requirements", fmt.Sprintf("are %d, of %d allowed", n, b.Requirements)
	}
	for _, section := range []struct {
		name string
		of   map[string]*fnv1.ResourceSelector
	}{{"resources", all.GetResources()}, {"extra_resources", extra}} {
		for _, key := range slices.Sorted(maps.Keys(section.of)) {
			if what := unselective(section.of[key]); what != "" {
				return fmt.Sprintf("requirements.%s[%.80s]", section.name, key), what
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all.GetSchemas())) {
		if what := noKind(all.GetSchemas()[key].GetApiVersion(), all.GetSchemas()[key].GetKind()); what != "" {
			return fmt.Sprintf("requirements.schemas[%.80s]", key), what
		}
	}
	return "", ""
}

// unselective says what is wrong with a selector.
func unselective(s *fnv1.ResourceSelector) string {
	if what := noKind(s.GetApiVersion(), s.GetKind()); what != "" {
		return what
	}
	if s.GetNamespace() != "" && len(validation.IsDNS1123Label(s.GetNamespace())) > 0 {
		return fmt.Sprintf("has a namespace that cannot be: %.80q", s.GetNamespace())
	}
	switch match := s.GetMatch().(type) {
	case *fnv1.ResourceSelector_MatchName:
		if match.MatchName == "" || len(content.IsPathSegmentName(match.MatchName)) > 0 {
			return fmt.Sprintf("has a name that cannot be: %.80q", match.MatchName)
		}
	case *fnv1.ResourceSelector_MatchLabels:
		labels := match.MatchLabels.GetLabels()
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			value := labels[key]
			if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
				return fmt.Sprintf("has a label that cannot be: %.80q=%.80q", key, value)
			}
		}
	default:
		return "selects by neither name nor labels"
	}
	return ""
}

// noKind says what is wrong with the name of a kind.
func noKind(apiVersion, kind string) string {
	if apiVersion == "" {
		return "has no apiVersion"
	}
	if gv, err := schema.ParseGroupVersion(apiVersion); err != nil || gv.Version == "" {
		return fmt.Sprintf("has an apiVersion that is none: %.80q", apiVersion)
	}
	if kind == "" {
		return "has no kind"
	}
	return ""
}
