// Validates Kubernetes objects, a JSON list on stdin, against the published schemas as the npm packages
// kubernetes-models and @kubernetes-models/prometheus-operator carry them:
//
//   node schema_check.mjs FOLDER_WITH_NODE_MODULES < objects.json
//
// The schemas allow unknown fields, as an API server does before it prunes them; here a field that no schema reads is
// an error, for it is a typo that would be ignored. Prints one line for each problem.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const modules = join(resolve(process.argv[2]), "node_modules");
const require = createRequire(join(modules, "x.js"));
const CORE = join(modules, "kubernetes-models/_schemas");
const OPERATOR = join(modules, "@kubernetes-models/prometheus-operator/_schemas");
const OPERATOR_PREFIX = "ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1";

async function validatorOf({ apiVersion, kind }) {
  if (apiVersion === "monitoring.coreos.com/v1") {
    return (await import(pathToFileURL(join(OPERATOR, `${OPERATOR_PREFIX}${kind}.js`)))).validate;
  }
  // apps/v1 -> IoK8sApiAppsV1, networking.k8s.io/v1 -> IoK8sApiNetworkingV1, v1 -> IoK8sApiCoreV1
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["core", apiVersion];
  const upper = (text) => text[0].toUpperCase() + text.slice(1);
  return require(join(CORE, `IoK8sApi${upper(group.split(".")[0])}${upper(version)}${kind}.js`)).validate;
}

// A view of `value` that remembers which fields were read; `unread` lists the others.
function watched(value) {
  if (value === null || typeof value !== "object") return { view: value, unread: () => [] };
  const read = new Set();
  const children = new Map();
  const child = (key) => {
    if (!children.has(key)) children.set(key, watched(value[key]));
    return children.get(key);
  };
  const view = new Proxy(value, {
    get(target, key) {
      if (typeof key === "symbol" || !Object.hasOwn(target, key)) return target[key];
      read.add(key);
      return child(key).view;
    },
  });
  const unread = (path) =>
    Object.keys(value).flatMap((key) =>
      Array.isArray(value) || read.has(key) ? child(key).unread(`${path}/${key}`) : [`${path}/${key}`]);
  return { view, unread };
}

let problems = 0;
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const name = `${object.kind} ${object.metadata?.name}`;
  const report = (text) => {
    ++problems;
    console.log(`${name}: ${text}`);
  };
  const validate = await validatorOf(object);
  const { view, unread } = watched(object);
  if (!validate(view)) for (const error of validate.errors) report(`${error.instancePath}: ${error.keyword} ${
    JSON.stringify(error.params)}`);
  for (const path of unread("")) report(`${path}: no such field`);
}
process.exit(problems > 0 ? 1 : 0);
