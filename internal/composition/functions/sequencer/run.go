package sequencer

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object/regexps"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Run removes the desired resources that have to wait, and adds usages of resources. It may change the request.
func Run(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	raw, err := structs.ToObject(r.GetInput())
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	s := &sequencing{
		request: r, matches: map[string]func(string) bool{},
		response: &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag()}, Desired: r.GetDesired(), Context: r.GetContext()},
	}
	in, problems := decode(raw)
	if len(problems) > 0 {
		s.say(fnv1.Severity_SEVERITY_FATAL, "invalid Function input: %s", call.FormatProblems(problems))
		return s.response, nil
	}
	if s.response.Desired == nil {
		s.response.Desired = &fnv1.State{}
	}
	if in.ttl > 0 {
		s.response.Meta.Ttl = durationpb.New(in.ttl)
	}
	// Conditions read what earlier steps desire, also after resources were removed.
	s.desired, s.observed = maps.Clone(r.GetDesired().GetResources()), r.GetObserved().GetResources()
	usages := map[string]*fnv1.Resource{}
	for i, rule := range in.Rules {
		if err := s.apply(in, rule, usages); err != nil {
			s.say(fnv1.Severity_SEVERITY_FATAL, "rules[%d].%s", i, diag.Truncate(err.Error(), 1000))
			return s.response, nil
		}
	}
	if s.desired == nil {
		s.desired = usages
	}
	maps.Copy(s.desired, usages)
	s.response.Desired.Resources = s.desired
	return s.response, nil
}

type sequencing struct {
	request           *fnv1.RunFunctionRequest
	response          *fnv1.RunFunctionResponse
	desired, observed map[string]*fnv1.Resource
	// matches are functions of names, by pattern.
	matches map[string]func(string) bool
}

func (s *sequencing) say(severity fnv1.Severity, format string, args ...any) {
	s.response.Results = append(s.response.Results, &fnv1.Result{Severity: severity, Message: fmt.Sprintf(format, args...)})
}

// matching returns the names of resources that a pattern matches, sorted.
func (s *sequencing) matching(pattern string, resources map[string]*fnv1.Resource) []string {
	if s.matches[pattern] == nil {
		re, err := regexps.Compile(anchored(pattern))
		known := map[string]bool{}
		s.matches[pattern] = func(name string) bool {
			is, has := known[name]
			if !has && err == nil { // Check has refused the others
				is, _ = re.Matches(name)
				known[name] = is
			}
			return is
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(resources)), func(name string) bool { return !s.matches[pattern](name) })
}

// apply applies a rule. The order of deletion does not depend on its condition: resources that exist were created in this order.
func (s *sequencing) apply(in *input, r rule, usages map[string]*fnv1.Resource) error {
	met := true
	if r.Condition != "" {
		var err error
		if met, err = isMet(r.Condition, s.request); err != nil {
			return fmt.Errorf("condition cannot be evaluated: %w", err)
		}
	}
	if in.OrdersDeletion && !r.CreateOnly {
		if err := s.addUsages(in, r.Sequence, usages); err != nil {
			return err
		}
	}
	switch {
	case !met:
		s.say(fnv1.Severity_SEVERITY_NORMAL, "the sequence %q is skipped: its condition %q is false", r.Sequence, r.Condition)
	case !r.DeleteOnly:
		for i := 1; i < len(r.Sequence); i++ {
			s.delay(in, r.Sequence[i], r.Sequence[:i])
		}
	}
	return nil
}

// delay removes the desired resources that a pattern matches, unless they exist, while one of those before is not ready.
func (s *sequencing) delay(in *input, pattern string, before []string) {
	if _, exists := s.observed[pattern]; exists {
		return
	}
	for _, earlier := range before {
		all := s.matching(earlier, s.desired)
		ready := 0
		for _, name := range all {
			if s.desired[name].GetReady() == fnv1.Ready_READY_TRUE {
				ready++
			}
		}
		switch {
		case len(all) == 0:
			s.say(fnv1.Severity_SEVERITY_NORMAL, "%q waits: %q does not exist yet", pattern, earlier)
		case ready < len(all):
			s.say(fnv1.Severity_SEVERITY_NORMAL, "%q waits: of %q, %d of %d resources are ready", pattern, earlier, ready, len(all))
		default:
			continue
		}
		for _, name := range s.matching(pattern, s.desired) {
			if _, exists := s.observed[name]; exists {
				continue
			}
			delete(s.desired, name)
			if in.ResetReadiness {
				if s.response.Desired.Composite == nil {
					s.response.Desired.Composite = &fnv1.Resource{}
				}
				s.response.Desired.Composite.Ready = fnv1.Ready_READY_FALSE
			}
		}
		return
	}
}
