package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a module whose packages are in the program, or the standard library.
type module struct {
	path, version string
	directory     string // of its source
	texts         []text // of its licence
}

type text struct {
	name    string
	content []byte
}

// standardLibrary is the path by which the standard library is known in package URLs.
const standardLibrary = "std"

// modulesOf returns the modules of a program for a platform, sorted.
func modulesOf(ctx context.Context, o *options, p platform, source, program string) ([]module, error) {
	out, err := output(ctx, source, o.environment(p), "go", "list", "-deps",
		"-f", `{{with .Module}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Dir}}{{end}}`, program)
	if err != nil {
		return nil, err
	}
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return line == "" })
	slices.Sort(lines)
	var found []module
	for _, line := range slices.Compact(lines) {
		fields := strings.Split(line, "\t")
		m := module{path: fields[0], version: fields[1], directory: fields[2]}
		if m.isOurs() {
			m.version, m.directory = o.version, o.root
		}
		found = append(found, m)
	}
	toolchain, err := output(ctx, source, o.environment(p), "go", "env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, root, _ := strings.Cut(toolchain, "\n")
	found = append(found, module{path: standardLibrary, version: version, directory: root})
	for i := range found {
		if err := found[i].readTexts(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// union returns the modules of both lists, sorted. A module of which the lists have two versions is in it twice.
func union(a, b []module) []module {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b module) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version)) })
	return slices.CompactFunc(all, func(a, b module) bool { return a.path == b.path && a.version == b.version })
}

// isOurs says whether the module is one of this repository.
func (m *module) isOurs() bool {
	return m.path == repository || strings.HasPrefix(m.path, repository+"/")
}

// licenceFile matches the names of files that a distribution of the module has to contain.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice)([.-].*)?$`)

// readTexts reads the licence of the module.
func (m *module) readTexts() error {
	entries, err := os.ReadDir(m.directory)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(m.directory, entry.Name()))
		if err != nil {
			return err
		}
		m.texts = append(m.texts, text{entry.Name(), content})
	}
	if len(m.texts) == 0 {
		return fmt.Errorf("module %s has no licence file", m.path)
	}
	return nil
}

// licenceTexts are the texts of the licences of all modules but our own, which is a file of its own.
func licenceTexts(modules []module) []byte {
	var out bytes.Buffer
	out.WriteString("The program contains these modules of other authors, under the licences below.\n")
	for _, m := range modules {
		if m.isOurs() {
			continue
		}
		for _, text := range m.texts {
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n%[1]s\n\n", strings.Repeat("=", 80), m.path, m.version, text.name)
			out.Write(bytes.TrimRight(bytes.ReplaceAll(text.content, []byte("\r\n"), []byte("\n")), "\n"))
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// phrases identify licences by their SPDX identifiers. The first whose phrases are all in a text is its
// licence.
var phrases = []struct {
	id  string
	all []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"MPL-2.0", []string{"mozilla public license", "2.0"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "endorse or promote"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software"}},
	{"MIT", []string{"permission is hereby granted, free of charge"}},
}

// licences are the SPDX identifiers of the licences whose texts are recognized, sorted.
func (m *module) licences() []string {
	var ids []string
	for _, text := range m.texts {
		if strings.HasPrefix(strings.ToLower(text.name), "notice") {
			continue
		}
		content := strings.Join(strings.Fields(strings.ToLower(string(text.content))), " ")
		for _, p := range phrases {
			if !slices.ContainsFunc(p.all, func(phrase string) bool { return !strings.Contains(content, phrase) }) {
				ids = append(ids, p.id)
				break
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
