package chart

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/program/server"
	aws "github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// keep are annotations by which Argo CD, Flux and Helm do not delete a CustomResourceDefinition, and with it all its objects.
var keep = map[string]string{
	"argocd.argoproj.io/sync-options":   "Prune=false,Delete=false",
	"kustomize.toolkit.fluxcd.io/prune": "disabled",
	"helm.sh/resource-policy":           "keep",
}

// CRDs returns the CustomResourceDefinitions that the installation with these options installs itself when it starts. GitOps tools can
// apply them first, with what needs them. The image is not required.
func CRDs(o Options) ([]*unstructured.Unstructured, error) {
	_, all, err := o.load()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(all["Values"])
	if err != nil {
		return nil, fmt.Errorf("encode the values: %w", err)
	}
	var values struct {
		Controllers struct {
			Dialects       []server.Dialect
			Graphs, Usages bool
			Packages       struct{ Enabled bool }
			Operations     struct{ Enabled bool }
		}
		Providers struct{ AWS, PostgreSQL struct{ Enabled bool } }
	}
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("decode the values: %w", err)
	}
	var providers []managed.Provider
	if values.Providers.AWS.Enabled {
		providers = append(providers, aws.Provider())
	}
	if values.Providers.PostgreSQL.Enabled {
		providers = append(providers, postgresql.Provider(postgresql.Options{}))
	}
	out, err := server.CRDs(values.Controllers.Dialects, values.Controllers.Graphs, values.Controllers.Usages, values.Controllers.Packages.Enabled, values.Controllers.Operations.Enabled, providers)
	for _, c := range out {
		annotations := c.GetAnnotations()
		maps.Copy(annotations, keep)
		c.SetAnnotations(annotations)
	}
	return out, err
}
