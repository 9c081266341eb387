// Package autoready is the function that says which composed resources are ready, where no
// function before it did: what function-auto-ready does as a program, inside this one.
//
// A resource is ready once it is observed and its own status says so. It differs in
// what it believes: a Ready condition that tells of an older generation than the object
// has counts for nothing, and neither does a status that does. And kinds of Kubernetes
// itself that have no status to speak of, such as a Role, are ready when they are there.
//
// Checks in CEL, which there are behind a feature gate, are always evaluated. What doesn't
// pass one is explicitly not ready, and neither is what one can't be evaluated for; that is
// a Warning as well.
//
// Pure: it decides from values alone.
package autoready

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/strict"
)

// The names that compositions know this function by: the one that everybody gives it, and
// the one that follows from its package.
const (
	Name        = "function-auto-ready"
	PackageName = "crossplane-contrib-function-auto-ready"
)

// Kind is the kind of its input, which it can do without.
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

// Run makes each desired resource ready that is observed to be and of which nothing has
// been said yet. Only an author's check makes one unready.
func Run(r call.Request) call.Response {
	in, ttl, problems, notes := decode(r.Input)
	if len(problems) > 0 {
		return call.Fails(r, "invalid input: "+call.Told(problems))
	}
	response := call.Response{Desired: r.Desired, Context: r.Context, TTL: ttl, Results: call.Warns("the input is accepted, but: ", notes)}
	all, err := in.checks(r.Context)
	if err != nil {
		response.Results = append(response.Results, call.Result{Severity: call.Warning, Message: err.Error()})
	}
	told := map[string]bool{} // of several objects of a kind it is told once
	for _, name := range slices.Sorted(maps.Keys(r.Desired.Resources)) {
		desired := r.Desired.Resources[name]
		observed, exists := r.Observed.Resources[name]
		if !exists || desired.Ready != call.Unspecified {
			continue
		}
		ready, err := all.ready(&unstructured.Unstructured{Object: observed.Object})
		if err != nil && !told[err.Error()] {
			told[err.Error()] = true
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
			Path: "apiVersion", Problem: fmt.Sprintf("can't be %q", in.APIVersion),
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
