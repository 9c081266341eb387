package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
)

// inspectFlags are the flags of xpkg inspect.
type inspectFlags struct {
	cacheDir, version, policy string
	output                    outputFlag
	registry                  registryFlags
}

func newXpkgInspect() *cobra.Command {
	var flags inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect REFERENCE|FILE",
		Short: "Show what a package contains, and its problems",
		Long: "Shows the metadata of a package, its dependencies and objects, and all its problems: of\n" +
			"a file, or of a reference in a registry. A reference without a tag and a digest is the\n" +
			"newest release that --version allows.\n\n" +
			"What is fetched is stored in a cache and checked against its digest. Credentials are\n" +
			"those of docker login.",
		Example: "  espalier xpkg inspect platform.xpkg\n" +
			"  espalier xpkg inspect registry.example.org/team/platform:v1.0.0 -o json\n" +
			"  espalier xpkg inspect registry.example.org/team/platform --version '>=1.0.0 <2'",
		Args: oneReference,
		RunE: func(cmd *cobra.Command, args []string) error { return inspectPackage(cmd, args[0], flags) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"xpkg"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	cmd.Flags().StringVar(&flags.version, "version", ">=0.0.0", "range of versions, for a reference without a tag")
	cmd.Flags().StringVar(&flags.policy, "pull-policy", string(corev1.PullAlways),
		"when the registry is asked: Always, IfNotPresent or Never")
	cmd.Flags().StringVar(&flags.cacheDir, "cache-dir", "", "folder of the cache; below the user's by default")
	flags.output.add(cmd)
	flags.registry.add(cmd)
	_ = cmd.MarkFlagDirname("cache-dir")
	_ = cmd.RegisterFlagCompletionFunc("version", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("pull-policy", cobra.FixedCompletions([]cobra.Completion{"Always", "IfNotPresent", "Never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// inspected is a package in JSON and YAML.
type inspected struct {
	Kind         string            `json:"kind"`
	Name         string            `json:"name"`
	Reference    string            `json:"reference,omitempty"`
	Digest       string            `json:"digest"`
	MediaType    string            `json:"mediaType"`
	Size         int64             `json:"size"`
	Platforms    []string          `json:"platforms,omitempty"`
	Crossplane   string            `json:"crossplane,omitempty"`
	Capabilities []string          `json:"capabilities,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	DependsOn    []xpkg.Dependency `json:"dependsOn"`
	Objects      []inspectedObject `json:"objects"`
	Problems     []inspectedFault  `json:"problems"`
}

type inspectedObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Installed  bool   `json:"installed"`
}

type inspectedFault struct {
	Line    int    `json:"line"`
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"`
}

func inspectPackage(cmd *cobra.Command, argument string, flags inspectFlags) error {
	policy := corev1.PullPolicy(flags.policy)
	if !slices.Contains([]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, policy) {
		return &usageError{fmt.Errorf("--pull-policy must be Always, IfNotPresent or Never, not %q", flags.policy)}
	}
	var found inspected
	var err error
	if _, missing := os.Stat(argument); missing == nil || strings.HasSuffix(argument, xpkg.Extension) {
		found, err = inspectFile(argument)
	} else {
		found, err = inspectReference(cmd, argument, policy, flags)
	}
	if err != nil {
		return err
	}
	return flags.output.printText(cmd.OutOrStdout(), found, found.text(widthOf(cmd.OutOrStdout())))
}

func inspectFile(path string) (inspected, error) {
	image, pkg, problems, err := readPackage(path)
	if err != nil {
		return inspected{}, err
	}
	digest, err := image.Digest()
	if err != nil {
		return inspected{}, err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return inspected{}, err
	}
	out := describePackage(pkg, problems)
	out.Digest, out.MediaType = digest.String(), string(mediaType)
	return out, out.measure(image)
}

func inspectReference(cmd *cobra.Command, text string, policy corev1.PullPolicy, flags inspectFlags) (inspected, error) {
	reference, err := xpkg.ParseReference(text)
	if err != nil {
		return inspected{}, &usageError{fmt.Errorf("there is no file %s, and it is no reference: %w", text, err)}
	}
	client, ctx, cancel, err := flags.registry.cachedClient(cmd.Context(), flags.cacheDir)
	if err != nil {
		return inspected{}, err
	}
	defer cancel()
	request := registry.Request{Reference: reference, Policy: policy, Keychain: authn.DefaultKeychain}
	if reference.Version() == "" {
		tags, err := client.Tags(ctx, request)
		if err != nil {
			return inspected{}, err
		}
		if request.Reference.Tag, err = xpkg.Newest(tags, flags.version); err != nil {
			return inspected{}, &usageError{fmt.Errorf("--version: %w", err)}
		}
		if request.Reference.Tag == "" {
			return inspected{}, fmt.Errorf("%s has no version in the range %s; it has %s", reference, flags.version, cmp.Or(strings.Join(xpkg.Versions(tags), ", "), "none"))
		}
	}
	fetched, err := client.Fetch(ctx, request)
	if err != nil {
		return inspected{}, err
	}
	pkg, problems := xpkg.Parse(xpkg.File{Name: "package.yaml", Text: string(fetched.Stream)})
	out := describePackage(pkg, problems)
	out.Reference, out.Digest, out.MediaType = request.Reference.String(), fetched.Digest.String(), fetched.Manifest.MediaType
	err = out.measure(fetched.Image)
	if len(fetched.Manifest.Platforms) > 0 {
		out.Platforms = fetched.Manifest.Platforms
	}
	return out, err
}

// measure adds the size of an image as it is fetched, and its platform.
func (i *inspected) measure(image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	i.Size = manifest.Config.Size
	for _, l := range manifest.Layers {
		i.Size += l.Size
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if p := config.Platform(); p != nil && p.OS != "" {
		i.Platforms = []string{p.String()}
	}
	return nil
}

func describePackage(pkg *xpkg.Package, problems []xpkg.Problem) inspected {
	out := inspected{
		Kind: pkg.Meta.Kind, Name: pkg.Meta.Metadata.Name, Capabilities: pkg.Meta.Spec.Capabilities, Annotations: pkg.Meta.Metadata.Annotations,
		DependsOn: slices.Concat([]xpkg.Dependency{}, pkg.Dependencies), Objects: []inspectedObject{}, Problems: []inspectedFault{},
	}
	if c := pkg.Meta.Spec.Crossplane; c != nil {
		out.Crossplane = c.Version
	}
	for _, o := range pkg.Objects {
		out.Objects = append(out.Objects, inspectedObject{o.GetAPIVersion(), o.GetKind(), o.GetName(), pkg.Installs(o.GroupVersionKind())})
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, inspectedFault{p.Line, p.Object, p.Message, p.Warning})
	}
	return out
}

func (i *inspected) text(width int) string {
	facts := [][]string{{"PACKAGE", strings.TrimSpace(i.Kind + " " + i.Name)}}
	for _, fact := range [][]string{
		{"REFERENCE", i.Reference},
		{"DIGEST", i.Digest},
		{"SIZE", fmt.Sprintf("%d bytes", i.Size)},
		{"PLATFORMS", strings.Join(i.Platforms, ", ")},
		{"CROSSPLANE", i.Crossplane},
		{"CAPABILITIES", strings.Join(i.Capabilities, ", ")},
	} {
		if fact[1] != "" {
			facts = append(facts, fact)
		}
	}
	text := columns(facts, width)
	if len(i.DependsOn) > 0 {
		table := [][]string{{"DEPENDS ON", "SOURCE", "VERSION"}}
		for _, d := range i.DependsOn {
			table = append(table, []string{d.Kind, d.Source, d.Version})
		}
		text += "\n" + columns(table, width)
	}
	if len(i.Objects) > 0 {
		table := [][]string{{"OBJECT", "NAME", "INSTALLED"}}
		for _, o := range i.Objects {
			table = append(table, []string{o.Kind, o.Name, map[bool]string{true: "yes", false: "no"}[o.Installed]})
		}
		text += "\n" + columns(table, width)
	}
	if len(i.Problems) > 0 {
		text += "\n" + diag.Counted(len(i.Problems), "problem", "problems") + ":\n"
		for _, p := range i.Problems {
			problem := xpkg.Problem{File: "package.yaml", Line: p.Line, Object: p.Object, Message: p.Message}
			text += diag.WrapLines("  "+observe.Printable(problem.String())+"\n", width)
		}
	}
	return text
}
