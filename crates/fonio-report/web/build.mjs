// Bundles the report's script and style into dist/, which fonio-report embeds. `cargo xtask assets` runs this.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const packages = "node_modules";
const read = (path) => readFileSync(`${packages}/${path}`, "utf8").trim();

// The packages in the script, and the files of each that its licence requires to be distributed.
const LICENCES = {
  echarts: ["NOTICE", "LICENSE", "licenses/LICENSE-d3"],
  tslib: ["CopyrightNotice.txt", "LICENSE.txt"],
  zrender: ["LICENSE"],
};

// Every HTML report contains the script, and with it this notice.
const notice = [
  read("echarts/NOTICE"),
  "Apache ECharts is licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0",
  "Apache ECharts contains parts of d3.js:",
  read("echarts/licenses/LICENSE-d3"),
  "zrender:",
  read("zrender/LICENSE"),
].join("\n\n").replaceAll("*/", "* /");

const script = await build({
  entryPoints: { report: "src/main.js" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  define: { "process.env.NODE_ENV": '"production"', __DEV__: "false" },
  banner: { js: `/*!\n${notice}\n*/` },
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
});

await build({
  entryPoints: { report: "src/report.css" },
  outdir: "dist",
  minify: true,
  target: ["chrome123", "firefox120", "safari17.5"],
  logLevel: "warning",
});

const inputs = Object.keys(script.metafile.inputs);
const bundled = new Set(inputs.map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]));
bundled.delete(undefined);
for (const name of bundled) {
  if (!(name in LICENCES)) {
    throw new Error(`the script contains the package ${name}: add the files of its licence to LICENCES in build.mjs`);
  }
}
for (const name of Object.keys(LICENCES)) {
  if (!bundled.has(name)) {
    throw new Error(`the script does not contain the package ${name}: remove it from LICENCES in build.mjs`);
  }
  for (const file of readdirSync(`${packages}/${name}`)) {
    if (/^(licen[cs]e|notice|copyright)/i.test(file) && file !== "licenses" && !LICENCES[name].includes(file)) {
      throw new Error(`${name} has a file ${file}: add it to LICENCES in build.mjs`);
    }
  }
}
const licences = Object.entries(LICENCES).map(([name, files]) => {
  const { version } = JSON.parse(read(`${name}/package.json`));
  return [`${name} ${version}`, ...files.map((file) => read(`${name}/${file}`))].join("\n\n");
});
const head = "dist/report.js contains these packages. Their licences and notices follow.";
writeFileSync("dist/LICENSES.txt", `${[head, ...licences].join(`\n\n${"-".repeat(80)}\n\n`)}\n`);
