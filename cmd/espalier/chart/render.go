package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/espalier-dev/espalier/charts"
)

// Options are how the chart is rendered.
type Options struct {
	// Release is the name of the release; espalier by default. There is one in a cluster.
	Release string
	// Namespace is the namespace of the release.
	Namespace string
	// Values are values files, later ones first in precedence; Set are settings NAME=VALUE, which
	// precede them, in Helm's syntax.
	Values [][]byte
	Set    []string
	// Version is the version of the program; empty for the chart's.
	Version string
	// ManagedBy is the value of the label app.kubernetes.io/managed-by; Helm by default.
	ManagedBy string
}

// Render returns the objects of the chart, in the order in which they are to be created. It
// verifies the values against the chart's schema.
func Render(o Options) ([]*unstructured.Unstructured, error) {
	c, all, err := o.load()
	if err != nil {
		return nil, err
	}
	if o.ManagedBy != "" {
		all["Release"].(map[string]any)["Service"] = o.ManagedBy
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		objects, err := parse(rendered[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, objects...)
	}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return cmp.Compare(position(a), position(b)) })
	return out, nil
}

// load returns the embedded chart and what its templates get.
func (o Options) load() (*chart.Chart, common.Values, error) {
	c, err := load(o.Version)
	if err != nil {
		return nil, nil, err
	}
	values, err := o.values()
	if err != nil {
		return nil, nil, err
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: cmp.Or(o.Release, "espalier"), Namespace: o.Namespace, Revision: 1,
		IsInstall: true}, common.DefaultCapabilities.Copy())
	if err != nil {
		return nil, nil, fmt.Errorf("invalid values: %w", err)
	}
	return c, all, nil
}

// load returns the embedded chart, with the given appVersion unless that is empty.
func load(version string) (*chart.Chart, error) {
	files := charts.Espalier()
	var all []*archive.BufferedFile
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		all = append(all, &archive.BufferedFile{Name: name, Data: text})
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadFiles(all)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	if version != "" {
		c.Metadata.AppVersion = version
	}
	return c, nil
}

// values merges the values of the options.
func (o Options) values() (map[string]any, error) {
	out := map[string]any{}
	for i, text := range o.Values {
		values, err := loader.LoadValues(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("values file %d: %w", i+1, err)
		}
		out = loader.MergeMaps(out, values)
	}
	for _, setting := range o.Set {
		if err := strvals.ParseInto(setting, out); err != nil {
			return nil, fmt.Errorf("setting %s: %w", setting, err)
		}
	}
	return out, nil
}

// parse returns the objects of a YAML text.
func parse(text string) (out []*unstructured.Unstructured, err error) {
	documents := yamlutil.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		switch err := documents.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(raw) == 0 || string(raw) == "null":
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
}

// order is the order in which kinds are created; others come last. What limits users comes before
// what grants permissions, and permissions before the programs that need them.
var order = []string{
	"Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityLevelConfiguration", "FlowSchema", "NetworkPolicy",
	"PodDisruptionBudget",
	"ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "Issuer", "Certificate", "Deployment",
}

func position(o *unstructured.Unstructured) int {
	if i := slices.Index(order, o.GetKind()); i >= 0 {
		return i
	}
	return len(order)
}
