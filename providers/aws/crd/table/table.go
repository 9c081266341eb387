// Package table writes the page of the documentation with all resource types.
package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/crd"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/reference"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

//go:generate go run ./generate -file ../../../../docs/aws-types.md

const head = `# AWS resource types

Generated from the schemas of %s %s, taken from AWS on %.10s. %d types can be served.

Each type is a kind of its service's group: AWS::EC2::VPC is VPC of ec2.aws.espalier.dev, and ClusterVPC if it is cluster-scoped.

- **Can**: C create, R read, U update, D delete, L list. Without U, a change needs another resource. L! needs properties of the type
  to list resources.
- **Name**: who chooses the identifier: AWS, or you, by properties or metadata.name.
- **Tags**: whether resources can be tagged at creation. Without tags, a creation with an unknown outcome needs a person, if AWS chooses the name.
- **Refs**: how many properties can refer to another resource. **Regions**: how many are known to have the type.
- **Only AWS checks**: what the schema of the kind does not say, with how often. AWS still refuses what is wrong.
`

// Page returns the page.
func Page() (string, error) {
	names := catalog.Names()
	source := catalog.Schemas()
	var out strings.Builder
	fmt.Fprintf(&out, head, source.Package, source.Version, source.SchemaDate, len(names))
	service := ""
	for _, name := range names {
		if next := strings.Split(name, "::")[1]; next != service {
			service = next
			fmt.Fprintf(&out, "\n## %s\n\n%s.%s\n\n| kind | can | name | tags | refs | regions | only AWS checks |\n|---|---|---|---|---|---|---|\n",
				service, strings.ToLower(service), naming.Group)
		}
		line, err := row(name)
		if err != nil {
			return "", err
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

func row(name string) (string, error) {
	t, err := catalog.Get(name)
	if err != nil {
		return "", err
	}
	kind, err := naming.Of(name, false)
	if err != nil {
		return "", err
	}
	_, losses, err := crd.For(t, false)
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
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %s |\n", kind.Kind, verbs(t), namedBy(t), tagged(t),
		len(reference.Of(t)), len(catalog.Regions(name)), strings.Join(lost, ", ")), nil
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
