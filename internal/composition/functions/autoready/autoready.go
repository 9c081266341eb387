// Package autoready implements function-auto-ready as a built-in function: it sets the readiness of composed
// resources if no function before it did.
//
// A resource is ready once it is observed and its status says so. It differs from upstream: a status or a Ready
// condition for an older generation than the object's is ignored. And Kubernetes' own kinds without a status, such as
// Role, are ready when they exist.
//
// Checks in CEL, which are behind a feature gate upstream, are always evaluated. A resource that doesn't pass its
// check is explicitly not ready, and so is one whose check cannot be evaluated; the latter is a Warning as well.
//
// Pure: it decides from values alone.
package autoready

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
)

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-auto-ready"
	PackageName = "crossplane-contrib-function-auto-ready"
)

// Kind is the kind of its optional input.
const Kind = "Input"

// versions are the API versions that the input's kind has had.
var versions = []string{"autoready.fn.crossplane.io/v1beta1", "autoready.fn.crossplane.io/v1alpha1"}

type input struct {
	APIVersion   string            `json:"apiVersion"`
	Kind         string            `json:"kind"`
	Metadata     map[string]any    `json:"metadata"`
	TTL          string            `json:"ttl"`
	Checks       map[string]string `json:"celHealthCheckCustomization"`
	ChecksInside string            `json:"celHealthCheckCustomizationFrom"`
}

// Run sets the readiness of each desired resource that is observed and has unspecified
// readiness. Only an author's check sets a resource unready.
func Run(r call.Request) call.Response {
	in, ttl, problems, notes := decode(r.Input)
	if len(problems) > 0 {
		return call.FatalResponse(r, "invalid input: "+call.FormatProblems(problems))
	}
	response := call.Response{Desired: r.Desired, Context: r.Context, TTL: ttl, Results: call.Warnings("the input is accepted, but: ", notes)}
	all, err := in.checks(r.Context)
	if err != nil {
		response.Results = append(response.Results, call.Result{Severity: call.Warning, Message: err.Error()})
	}
	reported := map[string]bool{} // the same error is reported once for all objects of a kind
	for _, name := range slices.Sorted(maps.Keys(r.Desired.Resources)) {
		desired := r.Desired.Resources[name]
		observed, exists := r.Observed.Resources[name]
		if !exists || desired.Ready != call.Unspecified {
			continue
		}
		ready, err := all.ready(&unstructured.Unstructured{Object: observed.Object})
		if err != nil && !reported[err.Error()] {
			reported[err.Error()] = true
			response.Results = append(response.Results, call.Result{Severity: call.Warning, Message: err.Error()})
		}
		desired.Ready = ready
		response.Desired.Resources[name] = desired
	}
	return response
}

func decode(object map[string]any) (in input, ttl time.Duration, problems, notes diag.List) {
	if len(object) == 0 {
		return in, 0, nil, nil
	}
	strict.Decode(object, &in, "", &problems)
	if in.Kind != Kind {
		notes.Addf("kind", "is %q, not %s", in.Kind, Kind)
	}
	if !slices.Contains(versions, in.APIVersion) {
		notes.Add(diag.Diagnostic{
			Path: "apiVersion", Problem: fmt.Sprintf("cannot be %q", in.APIVersion),
			Nearest: diag.Nearest(in.APIVersion, versions),
		})
	}
	if in.TTL != "" {
		var err error
		if ttl, err = time.ParseDuration(in.TTL); err != nil || ttl < 0 {
			problems.Addf("ttl", "%q is not a duration", in.TTL)
		}
	}
	return in, ttl, problems.Sorted(), notes.Sorted()
}

// Check lists the problems of an input: those that make the function fail, and notes on what has no effect.
func Check(input map[string]any) (problems, notes diag.List) {
	in, _, problems, notes := decode(input)
	if len(problems) > 0 || in.ChecksInside != "" {
		return problems, notes // further checks are in the pipeline's context
	}
	if _, err := in.checks(nil); err != nil {
		notes.Addf("celHealthCheckCustomization", "%v", err)
	}
	return nil, notes
}
