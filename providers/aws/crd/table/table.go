// Package table writes the pages of the documentation with all resource types, and with what only AWS checks of them.
package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/crd"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/override"
	"github.com/espalier-dev/espalier/providers/aws/reference"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

//go:generate go run ./generate -dir ../../../../docs

const head = `# AWS resource types

Generated from the schemas of %s %s, taken from AWS on %.10s. %d types.

Each type is a kind of its service's group: AWS::EC2::VPC is VPC of ec2.aws.espalier.dev, and ClusterVPC if it is cluster-scoped.
'espalier aws activate AWS::EC2::VPC' serves it: see [AWS](aws.md). 'kubectl explain' then shows its properties, which have AWS's names.

- **Can**: C create, R read, U update, D delete, L list. Without U, a change needs another resource. L! needs properties of the type
  to list resources.
- **Name**: who chooses the identifier: AWS, or you, by properties or metadata.name.
- **Tags**: whether resources can be tagged at creation. Without tags, a creation with an unknown outcome needs a person, if AWS chooses the name.
- **Refs**: how many properties can refer to another resource. **Regions**: how many are known to have the type.
- **Only AWS checks**: what the schema of the kind does not say, with how often. AWS still refuses what is wrong. [Another
  page](%s) names the properties, and so does ` + "`kubectl explain KIND.spec.forProvider`" + `.
`

const uncheckedHead = `# What only AWS checks

Generated from the schemas of %s %s, taken from AWS on %.10s. These are the properties of [all resource types](%s) for which
the schema of a kind says less than the schema of the type. The API server accepts values that AWS then refuses, and the
resource's condition Synced has AWS's message. %d of %d types are not here: nothing of their schemas is left out.

| for these properties | the API server does not check |
|---|---|
`

// explanations say what the API server does not check.
var explanations = []struct {
	what crd.What
	text string
}{
	{crd.Alternatives, "that properties of several alternatives are not set together"},
	{crd.FreeForm, "anything: the value can have several types"},
	{crd.ConditionalCreateOnly, "changes: AWS refuses some, and the schema does not say which"},
	{crd.PatternCount, "how long the parts of a string are that a regular expression limits to more than 1,000"},
	{crd.Dependency, "a rule about properties that depend on each other"},
	{crd.Enum, "allowed values that do not have the property's type"},
	{crd.Exclusion, "that properties which exclude each other are not set together"},
	{crd.Format, "a format of strings that Kubernetes does not know"},
	{crd.CreateOnly, "changes of a property that can only be set at creation: the provider does not send them"},
	{crd.TooLarge, "anything below it: the schema is too large"},
	{crd.Keys, "other keys beside the properties"},
	{crd.Pattern, "a regular expression that Go cannot compile"},
	{crd.KeyPattern, "the keys of a map"},
	{crd.Recursion, "anything below it: the schema contains itself"},
	{crd.Sibling, "references: a property has the name of the reference already"},
	{crd.Unique, "that the items of a list differ"},
}

// The files of the pages.
const (
	TypesFile     = "aws-types.md"
	UncheckedFile = "aws-types-unchecked.md"
)

// maxListed is how many properties of a type the page of unchecked ones lists. Only types that are too large have more.
const maxListed = 150

// Pages returns the pages by their files.
func Pages() (map[string]string, error) {
	source, names := catalog.Schemas(), catalog.Names()
	var types, unchecked strings.Builder
	fmt.Fprintf(&types, head, source.Package, source.Version, source.SchemaDate, len(names), UncheckedFile)
	service, lossless := "", 0
	for _, name := range names {
		t, err := catalog.Get(name)
		if err != nil {
			return nil, err
		}
		_, losses, err := crd.For(t, false)
		if err != nil {
			return nil, err
		}
		if next := strings.Split(name, "::")[1]; next != service {
			service = next
			fmt.Fprintf(&types, "\n## %s\n\n%s.%s\n\n| kind | can | name | tags | refs | regions | only AWS checks |\n|---|---|---|---|---|---|---|\n",
				service, strings.ToLower(service), naming.Group)
		}
		line, err := row(t, losses)
		if err != nil {
			return nil, err
		}
		types.WriteString(line)
		if len(losses) == 0 {
			lossless++
			continue
		}
		fmt.Fprintf(&unchecked, "| %s | %s |\n", name, strings.ReplaceAll(crd.List(losses, maxListed), "*", `\*`))
	}
	var top strings.Builder
	fmt.Fprintf(&top, uncheckedHead, source.Package, source.Version, source.SchemaDate, TypesFile, lossless, len(names))
	for _, e := range explanations {
		fmt.Fprintf(&top, "| %s | %s |\n", e.what, e.text)
	}
	top.WriteString("\n| type | properties |\n|---|---|\n")
	return map[string]string{TypesFile: types.String(), UncheckedFile: top.String() + unchecked.String()}, nil
}

func row(t *resourcetype.Type, losses []crd.Loss) (string, error) {
	kind, err := naming.Of(t.Name, false)
	if err != nil {
		return "", err
	}
	counts := crd.Count(losses)
	var lost []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[what]; n > 1 {
			lost = append(lost, fmt.Sprintf("%s %d", what, n))
		} else {
			lost = append(lost, string(what))
		}
	}
	if reason := override.Unsupported(t.Name); reason != "" {
		lost = []string{"not supported: " + reason}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %s |\n", kind.Kind, verbs(t), namedBy(t), tagged(t),
		len(reference.Of(t)), len(catalog.Regions(t.Name)), strings.Join(lost, ", ")), nil
}

func verbs(t *resourcetype.Type) string {
	text := "CR"
	if _, has := t.Handlers[resourcetype.Update]; has {
		text += "U"
	}
	text += "D"
	if list, has := t.Handlers[resourcetype.List]; has {
		text += "L"
		if list.HandlerSchema != nil && len(list.HandlerSchema.Required) > 0 {
			text += "!"
		}
	}
	return text
}

func namedBy(t *resourcetype.Type) string {
	for _, path := range t.PrimaryIdentifier {
		if resourcetype.Has(t.ReadOnlyProperties, path) {
			return "AWS"
		}
	}
	return "you"
}

func tagged(t *resourcetype.Type) string {
	if t.Tagging.Taggable && t.Tagging.TagOnCreate {
		return "yes"
	}
	return ""
}
