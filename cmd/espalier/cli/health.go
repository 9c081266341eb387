package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/observe/gitops"
)

// healthFlags are the flags of health.
type healthFlags struct {
	argocd, flux bool
	namespace    string
	files        []string
	where        clusterFlags
}

func newHealth() *cobra.Command {
	var flags healthFlags
	cmd := &cobra.Command{
		Use:   "health --argocd|--flux [KIND...]",
		Short: "Print health checks of Argo CD or Flux for the kinds that are served",
		Long: "Prints what a GitOps tool needs to know the health of objects: for Argo CD, the ConfigMap argocd-cm with\n" +
			"only a health check in Lua for each kind, for server-side apply; for Flux, spec.healthCheckExprs of a\n" +
			"Kustomization. It covers the kinds of definitions, and the kinds that the cluster's definitions and providers\n" +
			"serve or, with --filename, that files define. With names of kinds, such as Vpc or vpc.kro.run, only these.\n\n" +
			"In a cluster, it reads the CustomResourceDefinitions: the account needs the verb list for them.",
		Example: "  espalier health --argocd | kubectl apply --server-side --field-manager espalier-health -f -\n" +
			"  espalier health --flux -f platform/\n" +
			"  espalier health --flux vpc database.example.org",
		RunE: func(cmd *cobra.Command, args []string) error { return printHealth(cmd, flags, args) },
	}
	flags.where.add(cmd)
	cmd.Flags().BoolVar(&flags.argocd, "argocd", false, "print the ConfigMap of Argo CD")
	cmd.Flags().BoolVar(&flags.flux, "flux", false, "print the healthCheckExprs of Flux")
	cmd.Flags().StringVar(&flags.namespace, "argocd-namespace", "argocd", "the namespace of the ConfigMap")
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil,
		"file or directory with definitions instead of a cluster, or - for the standard input; repeatable")
	return cmd
}

func printHealth(cmd *cobra.Command, flags healthFlags, names []string) error {
	if flags.argocd == flags.flux {
		return &usageError{errors.New("health takes --argocd or --flux")}
	}
	crds, err := flags.crds(cmd)
	if err != nil {
		return err
	}
	kinds, err := gitops.Select(gitops.Kinds(append(crds, workspace.OwnDefinitions()...)), names)
	if err != nil {
		return &usageError{err}
	}
	out, err := gitops.Flux(kinds), error(nil)
	if flags.argocd {
		out, err = gitops.ArgoCD(kinds, flags.namespace)
	}
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s", text)
	return err
}

// crds returns the CustomResourceDefinitions of the kinds of the files, or of those that are served in the cluster.
func (f *healthFlags) crds(cmd *cobra.Command) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if len(f.files) == 0 {
		return f.crdsInCluster(cmd.Context())
	}
	files, err := readFiles(cmd, f.files)
	if err != nil {
		return nil, err
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, c := range workspace.New(files, workspace.Options{Version: Version()}).DefinitionsOfFiles() {
		if gitops.IsOurs(c) {
			out = append(out, c)
		}
	}
	return out, nil
}

// crdPage is how many CustomResourceDefinitions are read with one request: those with long schemas are large.
const crdPage = 100

func (f *healthFlags) crdsInCluster(ctx context.Context) (out []*apiextensionsv1.CustomResourceDefinition, err error) {
	config, err := f.where.config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	resource := schema.GroupVersionResource{Group: crd.Kind.Group, Version: crd.Kind.Version, Resource: "customresourcedefinitions"}
	for options := (metav1.ListOptions{Limit: crdPage}); ; {
		page, err := client.Resource(resource).List(ctx, options)
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("list CustomResourceDefinitions: %w\nhealth reads the CustomResourceDefinitions of the cluster: run it with an account that is allowed to list them, or name files with the definitions: -f FILE", err)
		}
		if err != nil {
			return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		for i := range page.Items {
			c, err := crd.Decode(&page.Items[i])
			if err == nil && gitops.IsOurs(c) {
				out = append(out, c)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}
