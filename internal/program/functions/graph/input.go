package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// The kinds of the inputs.
const (
	nativeVersion = "graph.fn.espalier.dev/v1alpha1"
	nativeKind    = "Graph"
	kroVersion    = "kro.fn.crossplane.io/v1alpha1"
	kroKind       = "ResourceGraph"
)

type input struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       spec           `json:"spec"`
}

type spec struct {
	Resources          []resource     `json:"resources"`
	Status             map[string]any `json:"status"`
	AllowSecretOutputs []string       `json:"allowSecretOutputs"`
}

type resource struct {
	ID             string              `json:"id"`
	Template       map[string]any      `json:"template"`
	ExternalRef    *externalRef        `json:"externalRef"`
	ReadyWhen      []string            `json:"readyWhen"`
	IncludeWhen    []string            `json:"includeWhen"`
	Value          any                 `json:"value"`
	ForEach        []map[string]string `json:"forEach"`
	WaitFor        map[string]waitFor  `json:"waitFor"`
	DeletionPolicy string              `json:"deletionPolicy"`
	DeleteAfter    []string            `json:"deleteAfter"`
}

type externalRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Selector  any    `json:"selector"`
	} `json:"metadata"`
}

// waitFor has no time limit: this function doesn't know how long a field has been missing.
type waitFor struct {
	Fields []any `json:"fields"`
}

func decode(from map[string]any) (*v1alpha1.DefinitionSpec, diag.List) {
	var in input
	problems := decodeInto(&in, from, nativeVersion, nativeKind)
	out := &v1alpha1.DefinitionSpec{Schema: &v1alpha1.Schema{Status: rawExtension(in.Spec.Status)}, AllowSecretOutputs: in.Spec.AllowSecretOutputs}
	out.Resources = translate(in.Spec.Resources, "spec.resources", &problems)
	return out, problems
}

// kroInput also accepts the fields that resources have in function-graph.
type kroInput struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Status     map[string]any `json:"status"`
	Resources  []resource     `json:"resources"`
}

func decodeKro(from map[string]any) (*v1alpha1.DefinitionSpec, diag.List) {
	var in kroInput
	problems := decodeInto(&in, from, kroVersion, kroKind)
	out := &v1alpha1.DefinitionSpec{Schema: &v1alpha1.Schema{Status: rawExtension(in.Status)}}
	out.Resources = translate(in.Resources, "resources", &problems)
	return out, problems
}

func decodeInto(in any, from map[string]any, apiVersion, kind string) (problems diag.List) {
	if len(from) == 0 {
		problems.Addf("", "the input is missing; expected %s of %s", kind, apiVersion)
		return problems
	}
	strict.Decode(from, in, "", &problems)
	if from["apiVersion"] != apiVersion || from["kind"] != kind {
		problems.Addf("kind", "is %v of \"%v\", not %s of %s", from["kind"], from["apiVersion"], kind, apiVersion)
	}
	return problems
}

func translate(resources []resource, at object.Path, problems *diag.List) (out []*v1alpha1.Resource) {
	for i := range resources {
		out = append(out, resources[i].translate(at.Index(i), problems))
	}
	return out
}

func (r *resource) translate(at object.Path, problems *diag.List) *v1alpha1.Resource {
	out := &v1alpha1.Resource{ID: r.ID, Template: rawExtension(r.Template), NodeOptions: v1alpha1.NodeOptions{
		ReadyWhen: r.ReadyWhen, IncludeWhen: r.IncludeWhen, DeletionPolicy: v1alpha1.DeletionPolicy(r.DeletionPolicy), DeleteAfter: r.DeleteAfter,
	}}
	for _, dimension := range r.ForEach {
		out.ForEach = append(out.ForEach, dimension)
	}
	if r.Value != nil {
		out.Value = rawExtension(r.Value)
	}
	if ref := r.ExternalRef; ref != nil {
		out.ExternalRef = &v1alpha1.ExternalRef{APIVersion: ref.APIVersion, Kind: ref.Kind}
		out.ExternalRef.Metadata.Name, out.ExternalRef.Metadata.Namespace = ref.Metadata.Name, ref.Metadata.Namespace
		if ref.Metadata.Selector != nil {
			out.ExternalRef.Metadata.Selector = rawExtension(ref.Metadata.Selector)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.WaitFor)) {
		if out.WaitFor == nil {
			out.WaitFor = map[string]v1alpha1.WaitFor{}
		}
		wait := v1alpha1.WaitFor{}
		if err := json.Unmarshal(rawExtension(r.WaitFor[id].Fields).Raw, &wait.Fields); err != nil {
			problems.Addf(at.Field("waitFor", id, "fields"), "is not a list of paths: %v", err)
		}
		out.WaitFor[id] = wait
	}
	return out
}

// rawExtension is a value as JSON. Values of an object can always be encoded.
func rawExtension(v any) runtime.RawExtension {
	if m, ok := v.(map[string]any); ok && m == nil {
		return runtime.RawExtension{}
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("function-graph: %v", err))
	}
	return runtime.RawExtension{Raw: data}
}
