package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

func newAWSTypes() *cobra.Command {
	var (
		output outputFlag
		region string
	)
	cmd := &cobra.Command{
		Use:   "types [PATTERN...]",
		Short: "List the resource types that can be activated",
		Long: "Lists resource types with their kinds: whether resources can be updated, or only created\n" +
			"and deleted; whether they can be listed; whether they can be tagged, so that one is found\n" +
			"by its tags after a crash; and in how many regions AWS is known to have the type. It needs\n" +
			"no cluster.\n\n" + typePatterns,
		Example: "  espalier aws types 'AWS::EC2::*'\n" +
			"  espalier aws types --region eu-central-1 -o json",
		ValidArgsFunction: completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"*"}
			}
			names, err := matchTypes(args)
			if err != nil {
				return err
			}
			if region != "" {
				if names = inRegion(names, region); len(names) == 0 {
					return noneInRegion(args, region)
				}
			}
			rows, err := typeRows(names)
			if err != nil {
				return err
			}
			return output.printText(cmd.OutOrStdout(), rows, typesTable(rows, widthOf(cmd.OutOrStdout())))
		},
	}
	output.add(cmd)
	cmd.Flags().StringVar(&region, "region", "", "only types that AWS is known to have in this region")
	return cmd
}

// inRegion returns the types that AWS is known to have in a region.
func inRegion(names []string, region string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(catalog.Regions(name), region) })
}

func noneInRegion(patterns []string, region string) error {
	if len(inRegion(catalog.Names(), region)) == 0 {
		return fmt.Errorf("no type is known in region %s", region)
	}
	return fmt.Errorf("no type that matches %s is known in region %s", strings.Join(patterns, ", "), region)
}

// typeRow is a resource type in a list.
type typeRow struct {
	Type       string `json:"type"`
	Kind       string `json:"kind"`
	Group      string `json:"group"`
	Updatable  bool   `json:"updatable"`
	Listable   bool   `json:"listable"`
	Taggable   bool   `json:"taggable"`
	Identifier string `json:"identifier"`
	Regions    int    `json:"regions"`
}

func typeRows(names []string) ([]typeRow, error) {
	out := make([]typeRow, 0, len(names))
	for _, name := range names {
		t, err := catalog.Get(name)
		if err != nil {
			return nil, err
		}
		kind, err := naming.Of(name, false)
		if err != nil {
			return nil, err
		}
		_, updates := t.Handlers[resourcetype.Update]
		identifier := ""
		for i, part := range t.PrimaryIdentifier {
			if i > 0 {
				identifier += "|"
			}
			identifier += part.String()
		}
		out = append(out, typeRow{
			Type: name, Kind: kind.Kind, Group: kind.Group, Updatable: updates, Listable: model.IsListable(t),
			Taggable: model.TagsOf(t).AtCreation, Identifier: identifier, Regions: len(catalog.Regions(name)),
		})
	}
	return out, nil
}

// typesTable formats types for a terminal of the given width, with kinds and identifiers below their types if that is narrow.
func typesTable(rows []typeRow, width int) string {
	wide := [][]string{{"TYPE", "KIND", "GROUP", "UPDATE", "LIST", "TAGS", "REGIONS", "IDENTIFIER"}}
	narrow := [][]string{{"TYPE", "UPDATE", "LIST", "TAGS", "REGIONS", "KIND AND IDENTIFIER"}}
	word := map[bool]string{true: "yes", false: "no"}
	for _, r := range rows {
		handlers := []string{word[r.Updatable], word[r.Listable], word[r.Taggable], strconv.Itoa(r.Regions)}
		wide = append(wide, slices.Concat([]string{r.Type, r.Kind, r.Group}, handlers, []string{r.Identifier}))
		narrow = append(narrow, slices.Concat([]string{r.Type}, handlers, []string{r.Kind + "." + r.Group + " by " + r.Identifier}))
	}
	if text := columns(wide, 0); fits(text, width) {
		return text
	}
	return columns(narrow, width)
}
