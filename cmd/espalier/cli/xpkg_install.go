package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/revision"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/object"
)

// packageKinds are the kinds of packages, as a user names them.
var packageKinds = []string{v1.ConfigurationKind, v1.FunctionKind, v1.ProviderKind}

// installPackageFlags are the flags of xpkg install.
type installPackageFlags struct {
	where         clusterFlags
	runtimeConfig string
	manual        bool
	history       int64
	secrets       []string
	wait          time.Duration
}

func newXpkgInstall() *cobra.Command {
	var flags installPackageFlags
	cmd := &cobra.Command{
		Use:   "install configuration|function|provider REFERENCE [NAME]",
		Short: "Install a package in a cluster",
		Long: "Creates the object of a package, which the controllers install with its dependencies.\n" +
			"Its name is the path of the reference by default, as for a dependency.\n\n" +
			"Exit codes: 0 after success, 1 after a failure, 2 for invalid arguments, 4 if the package\n" +
			"was not healthy at the timeout of --wait.",
		Example: "  espalier xpkg install function registry.example.org/example/greet:v1 greet --wait 2m",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return &usageError{fmt.Errorf("install takes a kind, a reference and perhaps a name, not %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return installPackage(cmd, args, flags) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"configuration", "function", "provider"}, cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags.where.add(cmd)
	cmd.Flags().StringVar(&flags.runtimeConfig, "runtime-config", "", "DeploymentRuntimeConfig of the program")
	cmd.Flags().BoolVarP(&flags.manual, "manual-activation", "m", false, "leave it to users to activate revisions")
	cmd.Flags().Int64VarP(&flags.history, "revision-history-limit", "r", 1, "inactive revisions to keep; 0 for all")
	cmd.Flags().StringSliceVar(&flags.secrets, "package-pull-secrets", nil, "Secret with credentials of the registry; repeatable")
	cmd.Flags().DurationVarP(&flags.wait, "wait", "w", 0, "timeout for the package to be healthy; 0 to not wait")
	for _, name := range []string{"runtime-config", "package-pull-secrets"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func installPackage(cmd *cobra.Command, args []string, flags installPackageFlags) error {
	o, err := flags.object(args, cmd.Flags().Changed("revision-history-limit"))
	if err != nil {
		return &usageError{err}
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	of := client.Resource(v1.GroupVersion.WithResource(strings.ToLower(o.GetKind()) + "s"))
	name := o.GetKind() + " " + o.GetName()
	created, err := of.Create(cmd.Context(), o, metav1.CreateOptions{FieldManager: "espalier"})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s exists already: change its spec.package for another version, or install under another name", name)
	case apierrors.IsNotFound(err):
		return errNoPackages
	case err != nil:
		return fmt.Errorf("create %s: %w", name, err)
	}
	if flags.wait <= 0 {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is being installed\n", name)
		return err
	}
	if problem := awaitPackage(cmd.Context(), of, created, flags.wait); problem != "" {
		return &codedError{exitUnfinished, fmt.Sprintf("%s is not healthy within %s: %s", name, flags.wait, problem)}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is healthy\n", name)
	return err
}

// object is the object of a package that the arguments and the flags describe.
func (f installPackageFlags) object(args []string, limited bool) (*unstructured.Unstructured, error) {
	kind := ""
	for _, known := range packageKinds {
		if strings.EqualFold(args[0], known) || strings.EqualFold(args[0], known+"s") {
			kind = known
		}
	}
	reference, err := xpkg.ParseReference(args[1])
	switch {
	case kind == "":
		return nil, fmt.Errorf("%q is no kind of packages; these are configuration, function and provider", args[0])
	case err != nil:
		return nil, err
	case reference.Version() == "":
		return nil, fmt.Errorf("%s has neither a tag nor a digest", args[1])
	case f.runtimeConfig != "" && kind == v1.ConfigurationKind:
		return nil, fmt.Errorf("--runtime-config is for programs, and a Configuration has none")
	}
	spec := map[string]any{"package": args[1]}
	if f.manual {
		spec["revisionActivationPolicy"] = string(v1.ActivationManual)
	}
	if limited {
		spec["revisionHistoryLimit"] = f.history
	}
	if f.runtimeConfig != "" {
		spec["runtimeConfigRef"] = map[string]any{"name": f.runtimeConfig}
	}
	var secrets []any
	for _, name := range f.secrets {
		secrets = append(secrets, map[string]any{"name": name})
	}
	if len(secrets) > 0 {
		spec["packagePullSecrets"] = secrets
	}
	name := revision.PackageName(reference.Source, object.Digest)
	if len(args) == 3 {
		name = args[2]
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}, nil
}

// awaitPackage waits until a package is healthy, and returns why it is not; empty if it is.
func awaitPackage(ctx context.Context, of dynamic.ResourceInterface, created *unstructured.Unstructured, wait time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", created.GetName()).String()
		return of.Watch(ctx, o)
	}}
	last := installedPackage{}
	_, err := watchtools.Until(ctx, created.GetResourceVersion(), watcher, func(e watch.Event) (bool, error) {
		if o, ok := e.Object.(*unstructured.Unstructured); ok {
			last = describeInstalled(o, nil)
		}
		return last.Installed == "True" && last.Healthy == "True", nil
	})
	if err == nil {
		return ""
	}
	return cmp.Or(last.Cause, "the controllers have not answered; are they running with packages enabled?")
}
