package server

import (
	"io/fs"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/apiextensions"
	ops "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/api/pkg"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/provider"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// CRDs returns the CustomResourceDefinitions that the controllers and the providers install in a cluster that has none, as they
// create them: another program can create them first, and the controllers recognize them as their own. No dialect stands for all.
func CRDs(served []Dialect, graphs, usages, packages, operations bool, providers []managed.Provider) ([]*unstructured.Unstructured, error) {
	if len(served) == 0 {
		served = Dialects
	}
	none := func(string) (*apiextensionsv1.CustomResourceDefinition, bool) { return nil, false }
	steps, err := cluster.PlanInstall(filesOf(served, graphs, usages, packages, operations, providers), none)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, s := range steps {
		out = append(out, s.Wanted)
	}
	return out, nil
}

// filesOf are the files with CustomResourceDefinitions, beside those of every cluster.
func filesOf(served []Dialect, graphs, usages, packages, operations bool, providers []managed.Provider) []fs.FS {
	var out []fs.FS
	for _, d := range served {
		out = append(out, d.kinds()...)
	}
	if graphs && slices.Contains(served, Graph) {
		out = append(out, v1alpha1.GraphCRDs)
	}
	if usages {
		out = append(out, protection.CRDs)
	}
	if packages && slices.Contains(served, Composition) {
		out = append(out, pkg.ManagerCRDs, apiextensions.ManagerCRDs)
	}
	if operations && slices.Contains(served, Composition) {
		out = append(out, ops.CRDs)
	}
	return append(out, provider.CRDs(providers)...)
}
