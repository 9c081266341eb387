package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/cmd/espalier/chart"
)

// defaultNamespace is the namespace of an installation.
const defaultNamespace = "espalier-system"

// installFlags are the flags of install.
type installFlags struct {
	namespace       string
	createNamespace bool
	crdsOnly        bool
	set             []string
	values          []string
	image, version  string
}

func newInstall() *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Print the manifests that install Espalier in a cluster",
		Long: "Prints what the Helm chart charts/espalier renders, without Helm: the controllers with\n" +
			"their service account, roles, policies and webhooks. Nothing is changed. Apply it again\n" +
			"with other values, or of another version, to upgrade. docs/install.md has the values.\n\n" +
			"The controllers install their CustomResourceDefinitions when they start. --crds-only prints\n" +
			"these, for GitOps tools that apply them first.",
		Example: "  espalier install --image registry.example.com/espalier:0.1.0 | kubectl apply --server-side -f -\n" +
			"  espalier install -f values.yaml --set replicas=3 | kubectl diff --server-side -f -\n" +
			"  espalier install --crds-only > crds.yaml",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return printInstallation(cmd, flags) },
	}
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", defaultNamespace, "the namespace of the installation")
	cmd.Flags().BoolVar(&flags.createNamespace, "create-namespace", true, "print the namespace as well")
	cmd.Flags().BoolVar(&flags.crdsOnly, "crds-only", false, "print the CustomResourceDefinitions, and nothing else")
	cmd.Flags().StringArrayVar(&flags.set, "set", nil, "a value of the chart, as NAME=VALUE in Helm's syntax; repeatable")
	cmd.Flags().StringArrayVarP(&flags.values, "values", "f", nil, "a file with values of the chart; - for the standard input; repeatable")
	cmd.Flags().StringVar(&flags.image, "image", "", "image, NAME:TAG or NAME@DIGEST; required unless values name it")
	cmd.Flags().StringVar(&flags.version, "version", "",
		"version, and tag of an image without one; by default this program's, or the chart's if it is no release")
	return cmd
}

func printInstallation(cmd *cobra.Command, flags installFlags) error {
	options, err := flags.options(cmd.InOrStdin())
	if err != nil {
		return err
	}
	render := chart.Render
	if flags.crdsOnly {
		render = chart.CRDs
	}
	objects, err := render(options)
	if err != nil {
		return &usageError{err}
	}
	if flags.createNamespace && !flags.crdsOnly {
		objects = append([]*unstructured.Unstructured{namespaceFor(flags.namespace)}, objects...)
	}
	for i, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		separator := map[bool]string{true: "---\n"}[i > 0]
		if _, err := fmt.Fprint(cmd.OutOrStdout(), separator, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// options returns how the chart is rendered.
func (f installFlags) options(stdin io.Reader) (chart.Options, error) {
	o := chart.Options{Namespace: f.namespace, Version: f.version, ManagedBy: programName}
	if o.Version == "" {
		o.Version = version
	}
	for _, path := range f.values {
		text, err := readValues(stdin, path)
		if err != nil {
			return o, err
		}
		o.Values = append(o.Values, text)
	}
	if f.image != "" {
		values, err := imageValues(f.image)
		if err != nil {
			return o, err
		}
		o.Values = append(o.Values, values)
	}
	o.Set = f.set
	return o, nil
}

func readValues(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}

// imageValues returns the values of the chart for an image, as a values file. All of them are strings, also a tag that
// looks like a number.
func imageValues(image string) ([]byte, error) {
	if strings.ContainsAny(image, ",{}= ") {
		return nil, &usageError{errors.New("--image must be NAME, NAME:TAG or NAME@DIGEST, not " + image)}
	}
	values := map[string]string{"repository": image}
	if name, digest, hasDigest := strings.Cut(image, "@"); hasDigest {
		values = map[string]string{"repository": name, "digest": digest}
	} else if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") { // a colon before a slash begins the port of the registry
		values = map[string]string{"repository": image[:colon], "tag": image[colon+1:]}
	}
	return json.Marshal(map[string]any{"image": values})
}

// namespaceFor is the namespace of the installation. Its pods comply with the strictest of the Pod
// Security Standards.
func namespaceFor(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}},
	}}
}
