package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/kube/jsonschema"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// schemaFlags are the flags of schema.
type schemaFlags struct {
	files     []string
	outputDir string
	where     clusterFlags
}

func newSchema() *cobra.Command {
	var flags schemaFlags
	cmd := &cobra.Command{
		Use:   "schema KIND...",
		Short: "Print the JSON Schema of a kind, for editors",
		Long: "Prints the JSON Schema of a kind's objects: of definitions, such as rgd, xrd and composition;\n" +
			"of the kinds that the files of --filename define; of Kubernetes; and, if none of these has the\n" +
			"kind, of the cluster. Unknown fields are errors, as in the strict validation of the API server.\n\n" +
			"With --output-dir, each schema is a file GROUP/KIND_VERSION.json, as kubeconform and other\n" +
			"programs read them; without KIND, then, all kinds of definitions and of the files.\n\n" +
			"An editor with the YAML language server uses a schema for a file with a first line\n" +
			"  # yaml-language-server: $schema=PATH\n\n" + kindNames,
		Example: "  espalier schema rgd > resourcegraphdefinition.json\n" +
			"  espalier schema webapp -f definition.yaml > webapp.json\n" +
			"  espalier schema -f platform/ --output-dir schemas",
		Args: func(_ *cobra.Command, args []string) error {
			if flags.outputDir == "" && len(args) != 1 {
				return &usageError{fmt.Errorf("schema takes one kind, not %d arguments; --output-dir takes several", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return printSchemas(cmd, flags, args) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil,
		"file or directory with definitions of kinds, or - for the standard input; repeatable")
	cmd.Flags().StringVar(&flags.outputDir, "output-dir", "", "a directory for the schemas, which is created")
	return cmd
}

func printSchemas(cmd *cobra.Command, flags schemaFlags, names []string) error {
	files, err := readFiles(cmd, flags.files)
	if err != nil {
		return err
	}
	w := workspace.New(files, workspace.Options{Version: Version()})
	all, err := flags.schemas(w, names)
	if err != nil {
		return err
	}
	problems := errorsIn(w)
	if len(problems) > 0 && slices.ContainsFunc(all, func(s foundSchema) bool { return s.fromCluster }) {
		fmt.Fprintf(prose(cmd.ErrOrStderr()), "the files have errors, which may be why the schema is the one that the cluster serves:\n%s\n",
			strings.Join(problems, "\n"))
	}
	for _, s := range all {
		converted, err := jsonschema.Of(s.kind.GroupVersionKind, s.schema, w.MetadataSchema())
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(converted, "", "  ")
		if err != nil {
			return err
		}
		if flags.outputDir == "" {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			return err
		}
		path := filepath.Join(flags.outputDir, s.kind.Group, strings.ToLower(s.kind.Kind)+"_"+s.kind.Version+".json")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), path)
	}
	if len(names) == 0 && len(problems) > 0 {
		return fmt.Errorf("the files have errors; the kinds of definitions with errors have no schema:\n%s", strings.Join(problems, "\n"))
	}
	return nil
}

// foundSchema is a kind with its schema.
type foundSchema struct {
	kind   workspace.Kind
	schema *spec.Schema
	// fromCluster says that the files do not have the kind.
	fromCluster bool
}

// schemas returns the schemas of the named kinds; without names, of those of definitions and of the files.
func (f *schemaFlags) schemas(w *workspace.Workspace, names []string) ([]foundSchema, error) {
	var out []foundSchema
	add := func(k workspace.Kind) {
		if info, ok := w.Lookup(k.GroupVersionKind); ok && info.Schema != nil {
			out = append(out, foundSchema{kind: k, schema: info.Schema})
		}
	}
	if len(names) == 0 {
		for _, k := range w.Kinds() {
			if k.Own || k.Definition {
				add(k)
			}
		}
		return out, nil
	}
	for _, name := range names {
		found := w.Find(name)
		switch {
		case len(found) == 0:
			of, err := f.inCluster(name)
			if problems := errorsIn(w); err != nil && len(problems) > 0 {
				return nil, fmt.Errorf("%w\nthe files have errors, which may be why they have no such kind:\n%s", err, strings.Join(problems, "\n"))
			}
			if err != nil {
				return nil, err
			}
			out = append(out, of)
			continue
		case len(found) > 1:
			var all []string
			for _, k := range found {
				all = append(all, strings.ToLower(k.Kind)+"."+k.Version+"."+k.Group)
			}
			slices.Sort(all)
			return nil, &usageError{fmt.Errorf("%s is ambiguous; name one of these kinds: %s", name, strings.Join(all, ", "))}
		}
		before := len(out)
		if add(found[0]); len(out) == before {
			return nil, fmt.Errorf("there is no schema of %s", found[0].GroupVersionKind)
		}
	}
	return out, nil
}

// inCluster returns the schema of a kind that a cluster serves.
func (f *schemaFlags) inCluster(name string) (out foundSchema, err error) {
	config, err := f.where.config()
	if err != nil {
		return out, errors.Join(fmt.Errorf("neither the files, nor Espalier, nor Kubernetes have a kind %s, and no cluster is known", name), err)
	}
	cluster, err := reader.New(config)
	if err != nil {
		return out, err
	}
	target, err := cluster.Kinds.Target(name, "", "")
	if err == nil {
		err = requireOneKind(name, target)
	}
	if err != nil {
		return out, err
	}
	out.kind.GroupVersionKind, out.fromCluster = target.Mapping.GroupVersionKind, true
	out.schema, err = servedSchema(config, out.kind.GroupVersionKind)
	return out, err
}

// servedSchema reads the schema of a kind from a cluster.
func servedSchema(config *rest.Config, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	found, err := (&resolver.ClientDiscoveryResolver{Discovery: server}).ResolveSchema(gvk)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk.Kind, err)
	}
	return found, nil
}
