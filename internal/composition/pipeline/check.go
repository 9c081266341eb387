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

// Bounds limit the response of a step. Zero values stand for the defaults.
type Bounds struct {
	// MaxResources is how many resources a composite may have. The default is 2,000.
	MaxResources int
	// MaxResults and MaxConditions are how many a step may return. The defaults are 256 and
	// 64.
	MaxResults, MaxConditions int
	// MaxRequirements is how many a step may have. The default is 128.
	MaxRequirements int
	// ReservedConditions are the types of conditions that functions cannot set; they are
	// dropped. The default is Ready, Synced, Healthy and Responsive.
	ReservedConditions []string
}

func (b Bounds) withDefaults() Bounds {
	for value, standard := range map[*int]int{&b.MaxResources: 2000, &b.MaxResults: 256, &b.MaxConditions: 64, &b.MaxRequirements: 128} {
		if *value == 0 {
			*value = standard
		}
	}
	if b.ReservedConditions == nil {
		b.ReservedConditions = []string{"Ready", "Synced", "Healthy", "Responsive"}
	}
	return b
}

// check returns a ResponseError if a response is invalid. Desired resources are only
// checked after the last step, since a later step may complete an object.
func (b Bounds) check(request *fnv1.RunFunctionRequest, response *fnv1.RunFunctionResponse) error {
	if response == nil {
		return &ResponseError{Problem: "is missing"}
	}
	if n := len(response.GetResults()); n > b.MaxResults {
		return &ResponseError{Path: "results", Problem: fmt.Sprintf("are %d, of %d allowed", n, b.MaxResults)}
	}
	if ttl := response.GetMeta().GetTtl(); ttl != nil && (!ttl.IsValid() || ttl.AsDuration() < 0) {
		return &ResponseError{Path: "meta.ttl", Problem: fmt.Sprintf("is no time to live: %d seconds and %d nanoseconds", ttl.GetSeconds(), ttl.GetNanos())}
	}
	if err := b.conditions(response.GetConditions()); err != nil {
		return err
	}
	if at, what := b.requirements(response.GetRequirements()); what != "" {
		return &ResponseError{Path: at, Problem: what}
	}
	if fatal(response) != nil {
		return nil // its desired state is not used
	}
	return b.state(request, response)
}

func (b Bounds) state(request *fnv1.RunFunctionRequest, response *fnv1.RunFunctionResponse) error {
	resources := response.GetDesired().GetResources()
	// Functions commonly forget to copy the desired state of the steps before them. That must
	// not delete resources.
	if before := len(request.GetDesired().GetResources()); before > 0 && response.GetDesired() == nil {
		return &ResponseError{Path: "desired", Problem: fmt.Sprintf("is missing, although %d resources were handed to the function", before)}
	}
	if n := len(resources); n > b.MaxResources {
		return &ResponseError{Path: "desired.resources", Problem: fmt.Sprintf("are %d, of %d allowed", n, b.MaxResources)}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if what := resourceNameProblem(name); what != "" {
			return &ResponseError{Path: fmt.Sprintf("desired.resources: the name %.80q", name), Problem: what}
		}
	}
	return checkComposite(request.GetObserved().GetComposite().GetResource(), response.GetDesired().GetComposite().GetResource())
}

// resourceNameProblem says what is wrong with a resource's name in the composition.
func resourceNameProblem(name string) string {
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

// checkComposite refuses a desired composite that is another object than the observed one.
func checkComposite(observed, desired *structpb.Struct) error {
	differ := func(field string, observed, desired *structpb.Struct) error {
		value := desired.GetFields()[field]
		if value == nil || value.GetStringValue() == "" || value.GetStringValue() == observed.GetFields()[field].GetStringValue() {
			return nil
		}
		return &ResponseError{Path: "desired.composite", Problem: fmt.Sprintf("is another object: its %s is %.80q, not %q",
			field, value.GetStringValue(), observed.GetFields()[field].GetStringValue())}
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if err := differ(field, observed, desired); err != nil {
			return err
		}
	}
	metadata := func(s *structpb.Struct) *structpb.Struct { return s.GetFields()["metadata"].GetStructValue() }
	for _, field := range []string{"name", "namespace", "uid"} {
		if err := differ(field, metadata(observed), metadata(desired)); err != nil {
			return err
		}
	}
	return nil
}

// conditionType is the pattern of metav1.Condition's type.
var conditionType = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)

func (b Bounds) conditions(all []*fnv1.Condition) error {
	if n := len(all); n > b.MaxConditions {
		return &ResponseError{Path: "conditions", Problem: fmt.Sprintf("are %d, of %d allowed", n, b.MaxConditions)}
	}
	for i, c := range all {
		if len(c.GetType()) > 316 || !conditionType.MatchString(c.GetType()) {
			return &ResponseError{Path: fmt.Sprintf("conditions[%d].type", i), Problem: fmt.Sprintf("is no type of a condition: %.80q", c.GetType())}
		}
	}
	return nil
}

// requirements says what is wrong with requirements, and at which of them.
func (b Bounds) requirements(all *fnv1.Requirements) (at, what string) {
	extra := all.GetExtraResources() //nolint:staticcheck // functions still ask this way
	if n := len(all.GetResources()) + len(extra) + len(all.GetSchemas()); n > b.MaxRequirements {
		return "requirements", fmt.Sprintf("are %d, of %d allowed", n, b.MaxRequirements)
	}
	for _, section := range []struct {
		name string
		of   map[string]*fnv1.ResourceSelector
	}{{"resources", all.GetResources()}, {"extra_resources", extra}} {
		for _, key := range slices.Sorted(maps.Keys(section.of)) {
			if what := selectorProblem(section.of[key]); what != "" {
				return fmt.Sprintf("requirements.%s[%.80s]", section.name, key), what
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all.GetSchemas())) {
		if what := kindProblem(all.GetSchemas()[key].GetApiVersion(), all.GetSchemas()[key].GetKind()); what != "" {
			return fmt.Sprintf("requirements.schemas[%.80s]", key), what
		}
	}
	return "", ""
}

// selectorProblem says what is wrong with a selector.
func selectorProblem(s *fnv1.ResourceSelector) string {
	if what := kindProblem(s.GetApiVersion(), s.GetKind()); what != "" {
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

// kindProblem says what is wrong with the name of a kind.
func kindProblem(apiVersion, kind string) string {
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
