package chart

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/espalier-dev/espalier/charts"
)

const readmeIntroduction = `<!-- Generated from values.yaml and values.schema.json by 'make generate'; do not edit. -->

# espalier

A control plane for platform APIs: definitions of graphs and compositions are served as Kubernetes kinds.

` + "```sh" + `
helm install espalier charts/espalier --namespace espalier-system --create-namespace \
  --set image.repository=registry.example.com/espalier --set image.tag=0.1.0
` + "```" + `

- No image is published: push one to your registry, and name it.
- The chart contains no CustomResourceDefinitions. The controllers install those of their version when they start; for GitOps,
  ` + "`espalier install --crds-only`" + ` prints the same ones. Nothing deletes them with the release.
- There is no ` + "`nameOverride`" + ` or ` + "`fullnameOverride`" + `: a cluster has one installation, and its objects have fixed names.

[Installation](https://github.com/espalier-dev/espalier/blob/main/docs/install.md) describes permissions, certificates, networks, proxies, GitOps
and how to uninstall.

## Values

` + "`values.schema.json`" + ` refuses unknown values.

| value | meaning | default |
|---|---|---|
`

// valueSchema is what the README takes from values.schema.json.
type valueSchema struct {
	Description string                  `json:"description"`
	Properties  map[string]*valueSchema `json:"properties"`
}

// readme returns the README of the chart: a row for each value, with its comment in values.yaml or else its description in the schema.
func readme() ([]byte, error) {
	files := charts.Espalier()
	var schema valueSchema
	raw, err := fs.ReadFile(files, "values.schema.json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	if raw, err = fs.ReadFile(files, "values.yaml"); err != nil {
		return nil, err
	}
	var values yaml.Node
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	rows, err := rowsOf("", values.Content[0], &schema)
	return []byte(readmeIntroduction + rows), err
}

// rowsOf returns the rows of the values in a mapping. A value with further values has a row only if it has a comment.
func rowsOf(prefix string, mapping *yaml.Node, schema *valueSchema) (string, error) {
	var out strings.Builder
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path, described := prefix+key.Value, schema.Properties[key.Value]
		if described == nil {
			return "", fmt.Errorf("values.schema.json has no %s", path)
		}
		comment := commentOf(key)
		if len(described.Properties) > 0 && value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			if comment != "" {
				fmt.Fprintf(&out, "| `%s` | %s | |\n", path, prose(comment))
			}
			rows, err := rowsOf(path+".", value, described)
			if err != nil {
				return "", err
			}
			out.WriteString(rows)
			continue
		}
		if comment == "" {
			comment = described.Description
		}
		var standard any
		if err := value.Decode(&standard); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		text, err := json.Marshal(standard)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		fmt.Fprintf(&out, "| `%s` | %s | `%s` |\n", path, prose(comment), strings.ReplaceAll(string(text), "|", `\|`))
	}
	return out.String(), nil
}

// commentOf returns the comment above a key as one line. What a blank line separates from the key is about something else.
func commentOf(key *yaml.Node) string {
	paragraphs := strings.Split(key.HeadComment, "\n\n")
	return strings.Join(strings.Fields(strings.ReplaceAll("\n"+paragraphs[len(paragraphs)-1], "\n#", "\n")), " ")
}

// prose escapes what would end a cell of a table or be emphasis.
func prose(text string) string { return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text) }
