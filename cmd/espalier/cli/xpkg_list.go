package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/observe"
)

var errNoPackages = errors.New("the cluster does not serve the kinds of packages: install Espalier's CustomResourceDefinitions first")

// listFlags are the flags of xpkg list.
type listFlags struct {
	where  clusterFlags
	output outputFlag
}

func newXpkgList() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the packages of a cluster, and why one is not healthy",
		Long: "Lists all Configurations, Functions and Providers: the version and the number of the\n" +
			"current revision, whether it is installed and healthy, and if not, why.",
		Example: "  espalier xpkg list",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listPackages(cmd, flags) },
	}
	flags.where.add(cmd)
	flags.where.addFrom(cmd)
	flags.output.add(cmd)
	return cmd
}

// installedPackage is a package of a cluster in JSON and YAML.
type installedPackage struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Package string `json:"package"`
	Version string `json:"version"`
	// Revision is the number of the current revision, and CurrentRevision its name.
	Revision        int64  `json:"revision,omitempty"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	Installed       string `json:"installed"`
	Healthy         string `json:"healthy"`
	Cause           string `json:"cause,omitempty"`
}

type installedPackages []installedPackage

func listPackages(cmd *cobra.Command, flags listFlags) error {
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	found := installedPackages{}
	for _, kind := range packageKinds {
		var lists [2]*unstructured.UnstructuredList
		for i, resource := range []string{strings.ToLower(kind) + "revisions", strings.ToLower(kind) + "s"} {
			lists[i], err = client.Resource(v1.GroupVersion.WithResource(resource)).List(cmd.Context(), metav1.ListOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return errNoPackages
			case err != nil:
				return fmt.Errorf("list %s: %w", resource, err)
			}
		}
		for _, o := range lists[1].Items {
			found = append(found, describeInstalled(&o, lists[0].Items))
		}
	}
	slices.SortFunc(found, func(a, b installedPackage) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return flags.output.printText(cmd.OutOrStdout(), found, found.text(widthOf(cmd.OutOrStdout())))
}

// describeInstalled describes a package, with the number of its revision if that is among the given ones.
func describeInstalled(o *unstructured.Unstructured, revisions []unstructured.Unstructured) installedPackage {
	p := installedPackage{Kind: o.GetKind(), Name: o.GetName(), Installed: string(condition.Unknown), Healthy: string(condition.Unknown)}
	p.Package, _, _ = unstructured.NestedString(o.Object, "spec", "package")
	if reference, err := xpkg.ParseReference(p.Package); err == nil {
		p.Version = cmp.Or(reference.Tag, reference.Digest)
	}
	p.CurrentRevision, _, _ = unstructured.NestedString(o.Object, "status", "currentRevision")
	for _, r := range revisions {
		if r.GetName() == p.CurrentRevision {
			p.Revision, _, _ = unstructured.NestedInt64(r.Object, "spec", "revision")
		}
	}
	set := condition.Read(o)
	for _, kind := range []string{v1.TypeInstalled, v1.TypeHealthy, "Ready"} {
		c, ok := set.Get(kind)
		switch {
		case !ok:
			continue
		case kind == v1.TypeInstalled:
			p.Installed = string(c.Status)
		case kind == v1.TypeHealthy:
			p.Healthy = string(c.Status)
		}
		if c.Status != condition.True && p.Cause == "" {
			p.Cause = cmp.Or(c.Message, c.Reason)
		}
	}
	if synced, ok := set.Get("Synced"); ok && synced.Status == condition.False {
		p.Cause = cmp.Or(p.Cause, synced.Message)
	}
	return p
}

func (p installedPackage) state() string {
	switch {
	case p.Installed != string(condition.True):
		return "Not installed"
	case p.Healthy == string(condition.True):
		return "Healthy"
	case p.Healthy == string(condition.False):
		return "Unhealthy"
	}
	return "Unknown"
}

// text has one line for each package, however narrow.
func (all installedPackages) text(width int) string {
	if len(all) == 0 {
		return "There are no packages.\n"
	}
	table := [][]string{{"KIND", "NAME", "VERSION", "REV", "STATE", "CAUSE"}}
	for _, p := range all {
		number := ""
		if p.Revision > 0 {
			number = strconv.FormatInt(p.Revision, 10)
		}
		cause := strings.TrimPrefix(strings.TrimPrefix(p.Cause, p.CurrentRevision+": "), p.Package+": ")
		line := []string{p.Kind, p.Name, p.Version, number, p.state(), cause}
		for i := range line {
			line[i] = observe.Printable(line[i])
		}
		table = append(table, line)
	}
	return observe.FitTable(table, width)
}
