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

// ResponseLimits limit the response of a step. Zero values stand for the defaults.
type ResponseLimits struct {
	// MaxResources is how many resources a composite may contain. The default is 2,000.
	MaxResources int
	// MaxResults and MaxConditions are how many a step may return. The defaults are 256 and
	// 64.
	MaxResults, MaxConditions int
	// MaxRequirements is how many a step may state. The default is 128.
	MaxRequirements int
	// ReservedConditions are the types of conditions that functions cannot set; they are
	// dropped. The default is Ready, Synced, Healthy and Responsive.
	ReservedConditions []string
}

func (l ResponseLimits) withDefaults() ResponseLimits {
	for value, standard := range map[*int]int{&l.MaxResources: 2000, &l.MaxResults: 256, &l.MaxConditions: 64, &l.MaxRequirements: 128} {
		if *value == 0 {
			*value = standard
		}
	}
	if l.ReservedConditions == nil {
		l.ReservedConditions = []string{"Ready", "Synced", "Healthy", "Responsive"}
	}
	return l
}

// check returns a ResponseError if a response is invalid. Desired resources are only checked after the last step,
// because a later step may complete an object.
func (l ResponseLimits) check(request *fnv1.RunFunctionRequest, response *fnv1.RunFunctionResponse) error {
	if response == nil {
		return &ResponseError{Problem: "is missing"}
	}
	if n := len(response.GetResults()); n > l.MaxResults {
		return &ResponseError{Path: "results", Problem: fmt.Sprintf("has %d items, over the limit of %d", n, l.MaxResults)}
	}
	if ttl := response.GetMeta().GetTtl(); ttl != nil && (!ttl.IsValid() || ttl.AsDuration() < 0) {
		return &ResponseError{Path: "meta.ttl", Problem: fmt.Sprintf("is not a valid duration: %d seconds and %d nanoseconds", ttl.GetSeconds(), ttl.GetNanos())}
	}
	if err := l.conditions(response.GetConditions()); err != nil {
		return err
	}
	if path, problem := l.requirements(response.GetRequirements()); problem != "" {
		return &ResponseError{Path: path, Problem: problem}
	}
	if fatal(response) != nil {
		return nil // its desired state is not used
	}
	return l.state(request, response)
}

func (l ResponseLimits) state(request *fnv1.RunFunctionRequest, response *fnv1.RunFunctionResponse) error {
	resources := response.GetDesired().GetResources()
	if before := len(request.GetDesired().GetResources()); before > 0 && response.GetDesired() == nil {
		return &ResponseError{Path: "desired", Problem: fmt.Sprintf("is missing, although the request has %d desired resources", before)}
	}
	if n := len(resources); n > l.MaxResources {
		return &ResponseError{Path: "desired.resources", Problem: fmt.Sprintf("has %d items, over the limit of %d", n, l.MaxResources)}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if problem := resourceNameProblem(name); problem != "" {
			return &ResponseError{Path: fmt.Sprintf("desired.resources: the name %.80q", name), Problem: problem}
		}
	}
	return checkComposite(request.GetObserved().GetComposite().GetResource(), response.GetDesired().GetComposite().GetResource())
}

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

var conditionType = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)

func (l ResponseLimits) conditions(all []*fnv1.Condition) error {
	if n := len(all); n > l.MaxConditions {
		return &ResponseError{Path: "conditions", Problem: fmt.Sprintf("has %d items, over the limit of %d", n, l.MaxConditions)}
	}
	for i, c := range all {
		if len(c.GetType()) > 316 || !conditionType.MatchString(c.GetType()) {
			return &ResponseError{Path: fmt.Sprintf("conditions[%d].type", i), Problem: fmt.Sprintf("is not a valid condition type: %.80q", c.GetType())}
		}
	}
	return nil
}

func (l ResponseLimits) requirements(all *fnv1.Requirements) (path, problem string) {
	extra := all.GetExtraResources() //nolint:staticcheck // functions still ask this way
	if n := len(all.GetResources()) + len(extra) + len(all.GetSchemas()); n > l.MaxRequirements {
		return "requirements", fmt.Sprintf("has %d items, over the limit of %d", n, l.MaxRequirements)
	}
	for _, section := range []struct {
		name string
		of   map[string]*fnv1.ResourceSelector
	}{{"resources", all.GetResources()}, {"extra_resources", extra}} {
		for _, key := range slices.Sorted(maps.Keys(section.of)) {
			if field, problem := selectorProblem(section.of[key]); problem != "" {
				return fmt.Sprintf("requirements.%s[%.80s].%s", section.name, key, field), problem
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all.GetSchemas())) {
		if field, problem := kindProblem(all.GetSchemas()[key].GetApiVersion(), all.GetSchemas()[key].GetKind()); problem != "" {
			return fmt.Sprintf("requirements.schemas[%.80s].%s", key, field), problem
		}
	}
	return "", ""
}

func selectorProblem(s *fnv1.ResourceSelector) (field, problem string) {
	if field, problem := kindProblem(s.GetApiVersion(), s.GetKind()); problem != "" {
		return field, problem
	}
	if s.GetNamespace() != "" && len(validation.IsDNS1123Label(s.GetNamespace())) > 0 {
		return "namespace", invalidValue(s.GetNamespace())
	}
	switch match := s.GetMatch().(type) {
	case *fnv1.ResourceSelector_MatchName:
		if match.MatchName == "" || len(content.IsPathSegmentName(match.MatchName)) > 0 {
			return "match_name", invalidValue(match.MatchName)
		}
	case *fnv1.ResourceSelector_MatchLabels:
		labels := match.MatchLabels.GetLabels()
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			value := labels[key]
			if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
				return "match_labels", fmt.Sprintf("has an invalid label: %.80q=%.80q", key, value)
			}
		}
	default:
		return "match", "is required: match_name or match_labels"
	}
	return "", ""
}

func kindProblem(apiVersion, kind string) (field, problem string) {
	if apiVersion == "" {
		return "apiVersion", "is required"
	}
	if gv, err := schema.ParseGroupVersion(apiVersion); err != nil || gv.Version == "" {
		return "apiVersion", invalidValue(apiVersion)
	}
	if kind == "" {
		return "kind", "is required"
	}
	return "", ""
}
