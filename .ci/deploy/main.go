// Command deploy checks what gvbll is deployed with, without a cluster or a container
// engine. It lints and renders the Helm chart with its values files, decodes every
// manifest strictly into the Kubernetes API's types, and loads docker-compose.yml with
// compose's own library.
//
// Usage:
//
//	deploy ROOT
//
// where ROOT is the project's root directory.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	machinery "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	admission "k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploy ROOT")
		os.Exit(2)
	}
	checkChart(os.Args[1])
	checkCompose(os.Args[1])
	if failed {
		os.Exit(1)
	}
}

// failed says that something is wrong.
var failed bool

// complain says what is wrong. The checks go on.
func complain(format string, args ...any) {
	failed = true
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// must returns what the checks cannot do without.
func must[T any](x T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return x
}

// checkChart checks the Helm chart with each of its values files, as a newcomer lints it, and with bad values.
func checkChart(root string) {
	dir := filepath.Join(root, "charts/gvbll")
	c, flags := must(loader.Load(dir)), flagsOf(root, "work", "topics")
	lint := func(values map[string]any) {
		for _, err := range action.NewLint().Run([]string{dir}, values).Errors {
			complain("lint: %v", err)
		}
	}
	lint(nil)
	files := must(filepath.Glob(filepath.Join(dir, "ci/*.yaml")))
	if len(files) == 0 {
		complain("no values files")
	}
	for _, file := range files {
		values := must(chartutil.ReadValuesFile(file))
		manifests := must(render(c, values))
		lint(values)
		check(manifests, flags)
		fmt.Printf("%s: %d manifests\n", filepath.Base(file), len(manifests))
	}
	printed := map[string]any{} // by docs/kubernetes.md
	page := string(must(os.ReadFile(filepath.Join(root, "docs/kubernetes.md"))))
	for _, m := range regexp.MustCompile(`--set(-string)? '?([^\s']+)`).FindAllStringSubmatch(page, -1) {
		parse := strvals.ParseInto
		if m[1] != "" {
			parse = strvals.ParseIntoString
		}
		if err := parse(m[2], printed); err != nil {
			complain("docs/kubernetes.md: %v", err)
		}
	}
	lint(printed)
	manifests := must(render(c, printed))
	check(manifests, flags)
	fmt.Printf("as printed: %d manifests\n", len(manifests))
	for _, r := range refused {
		if _, err := render(c, must(chartutil.ReadValues([]byte(r.values)))); err == nil || !strings.Contains(err.Error(), r.want) {
			complain("values %s: the error is %v, it should name %s", r.values, err, r.want)
		}
	}
}

// refused are values that the chart must refuse, and what the error must name.
var refused = []struct{ values, want string }{
	{`{image: {repository: r, tag: "1"}, model: {volume: {emptyDir: {}}}}`, "kafka.brokers"},
	{`{image: {repository: r, tag: "1"}, kafka: {brokers: ["kafka:9092"]}, http: {anonymous: true}}`, "model.volume"},
	{`kafka: {brokers: ["kafka:9092"], brkers: 1}`, "brkers"},
	{`kafka: {brokers: ["kafka"]}`, "brokers"},
	{`replicas: 0`, "replicas"},
	{`{image: {repository: r, tag: "1"}, autoscaling: {enabled: true}, kafka: {brokers: ["k:1"]}}`, "set kafka.cells"},
	{`kafka: {cells: 0}`, "cells"},
	{`{image: {repository: r, tag: "1"}, kafka: {brokers: ["k:1"]}, model: {volume: {emptyDir: {}}}}`, "http.configSecret"},
	{`networkPolicy: {from: []}`, "from"},
	{`networkPolicy: {egress: {}}`, "egress"},
	{`settings: {state-dir: /elsewhere}`, "state-dir"},
	{`settings: {windwo: 20}`, "windwo"},
	{`settings: {window: abc}`, "/settings/window"},
	{`settings: {linger: 20}`, "/settings/linger"},
	{`{image: {repository: r}, kafka: {brokers: ["k:1"]}}`, "image.tag is required"},
	{`{image: {tag: "1"}, kafka: {brokers: ["k:1"]}}`, "image.repository is required"},
	{`{image: {repository: r, tag: "1"}, kafka: {brokers: ["k:1"], sasl: {mechanism: plain, user: u}}, ` +
		`model: {volume: {emptyDir: {}}}}`, "passwordSecret"},
}

// render returns the manifests, by the names of their template and of their place in it.
func render(c *chart.Chart, values chartutil.Values) (map[string]string, error) {
	release := chartutil.ReleaseOptions{Name: "papers", Namespace: "ml", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	out, err := engine.Render(c, all)
	manifests := make(map[string]string)
	for name, text := range out {
		for part, manifest := range releaseutil.SplitManifests(text) {
			if !strings.HasSuffix(name, "NOTES.txt") {
				manifests[name+"/"+part] = manifest
			}
		}
	}
	return manifests, err
}

// decoder decodes manifests into the API's types, and refuses fields that these lack.
var decoder = func() runtime.Decoder {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, network.AddToScheme,
		policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(types); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
}()

// check decodes every manifest into its type, checks pods, and checks that selectors
// select the workers and nothing else.
func check(manifests map[string]string, flags map[string][]string) {
	var workers, others []labels.Set
	var selectors []labels.Selector
	selects := func(s *machinery.LabelSelector) { selectors = append(selectors, labels.SelectorFromSet(s.MatchLabels)) }
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		object, _, err := decoder.Decode([]byte(manifests[name]), nil, nil)
		if err != nil {
			complain("%s: %v", name, err)
		}
		switch o := object.(type) {
		case *apps.StatefulSet:
			workers = append(workers, o.Spec.Template.Labels)
			selects(o.Spec.Selector)
			checkPod(&o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec, o.Spec.VolumeClaimTemplates, flags)
		case *core.Pod:
			others = append(others, o.Labels)
			checkPod(&o.ObjectMeta, &o.Spec, nil, flags)
		case *core.Service:
			selects(&machinery.LabelSelector{MatchLabels: o.Spec.Selector})
		case *network.NetworkPolicy:
			selects(&o.Spec.PodSelector)
		case *policy.PodDisruptionBudget:
			selects(o.Spec.Selector)
		case *autoscaling.HorizontalPodAutoscaler:
			if to := o.Spec.ScaleTargetRef; to.Kind != "StatefulSet" || to.Name != o.Name {
				complain("the autoscaler scales %s %s", to.Kind, to.Name)
			}
		}
	}
	if len(workers) != 1 {
		complain("%d stateful sets, want the one of the workers", len(workers))
	}
	for _, s := range selectors {
		if !slices.ContainsFunc(workers, func(w labels.Set) bool { return s.Matches(w) }) {
			complain("%s does not select the workers", s)
		}
		if slices.ContainsFunc(others, func(p labels.Set) bool { return s.Matches(p) }) {
			complain("%s selects a pod that is no worker", s)
		}
	}
}

// evaluator is what a cluster admits pods by.
var evaluator = must(podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil))

// checkPod checks a pod for faults that the API's types allow: what a namespace with the Pod Security Standard "restricted"
// refuses, what is not safe, and flags and settings that gvbll does not have.
func checkPod(meta *machinery.ObjectMeta, p *core.PodSpec, claims []core.PersistentVolumeClaim, flags map[string][]string) {
	level := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	if r := podsecurity.AggregateCheckResults(evaluator.EvaluatePod(level, meta, p)); !r.Allowed {
		complain("not of the Pod Security Standard \"restricted\": %s (%s)", r.ForbiddenReason(), r.ForbiddenDetail())
	}
	volumes := make(map[string]bool)
	for _, v := range p.Volumes {
		volumes[v.Name] = false
		if s := v.Secret; s != nil && v.Name != "model" && (s.DefaultMode == nil || *s.DefaultMode != 0o440) {
			complain("secret %s may be read by others, or not by the worker's group", v.Name)
		}
	}
	for _, c := range claims {
		volumes[c.Name] = false
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			complain("container %s may write its root", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if _, there := volumes[m.Name]; !there {
				complain("container %s mounts volume %s, which is not there", c.Name, m.Name)
			}
			volumes[m.Name] = true
		}
		// The worker's settings are variables; another container has flags, as topics --create.
		for _, arg := range c.Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if strings.HasPrefix(arg, "--") && !slices.Contains(flags[c.Args[0]], name) {
				complain("container %s has the flag --%s, but gvbll %s has none", c.Name, name, c.Args[0])
			}
		}
		names := make(map[string]bool)
		for _, e := range c.Env {
			if names[e.Name] {
				complain("container %s sets %s twice", c.Name, e.Name)
			}
			names[e.Name] = true
			if strings.Contains(e.Value, "e+") {
				complain("container %s sets %s to %s, a number that YAML has put in exponent form", c.Name, e.Name, e.Value)
			}
			flag, ours := strings.CutPrefix(e.Name, "GVBLL_")
			if flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-")); ours && !slices.Contains(flags["work"], flag) {
				complain("container %s sets %s, but gvbll work has no flag --%s", c.Name, e.Name, flag)
			}
		}
	}
	for name, used := range volumes {
		if !used {
			complain("volume %s is not mounted", name)
		}
	}
}

// aFlag is a flag in a help text.
var aFlag = regexp.MustCompile(`--(?:\[no-\])?([\w-]+)`)

// flagsOf returns the names of the flags of gvbll's commands.
func flagsOf(root string, commands ...string) map[string][]string {
	flags := make(map[string][]string)
	for _, name := range commands {
		cmd := exec.Command("go", "run", "./cmd/gvbll", name, "--help")
		cmd.Dir, cmd.Stderr = root, os.Stderr
		for _, m := range aFlag.FindAllStringSubmatch(string(must(cmd.Output())), -1) {
			flags[name] = append(flags[name], m[1])
		}
	}
	return flags
}

// checkCompose checks docker-compose.yml.
func checkCompose(root string) {
	options := must(cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")},
		cli.WithWorkingDirectory(root), cli.WithResolvedPaths(true), cli.WithEnv([]string{"GRAFANA_PASSWORD=a-password"})))
	project := must(options.LoadProject(context.Background()))
	for name, s := range project.Services {
		if _, tag, _ := strings.Cut(filepath.Base(s.Image), ":"); s.Build == nil && (tag == "" || tag == "latest") {
			complain("service %s: image %s is not pinned", name, s.Image)
		}
		if password := s.Environment["GF_SECURITY_ADMIN_PASSWORD"]; strings.HasPrefix(s.Image, "grafana/") &&
			(password == nil || *password != "a-password" || s.Environment["GF_AUTH_ANONYMOUS_ENABLED"] != nil) {
			complain("service %s: whoever reaches it may look at it without the password of GRAFANA_PASSWORD", name)
		}
		for _, p := range s.Ports {
			if p.Published != "" && p.HostIP != "127.0.0.1" {
				complain("service %s: port %s is open to other machines", name, p.Published)
			}
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
				complain("service %s: %v", name, err)
			}
		}
	}
	fmt.Printf("docker-compose.yml: %d services\n", len(project.Services))
}
