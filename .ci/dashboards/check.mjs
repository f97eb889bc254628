// Checks dashboards against the types that Grafana publishes: writes each one as a
// TypeScript value of these types, so that an option that is unknown, misspelt or of
// another type is a compiler error.
//
//   node check.mjs OUT.ts DASHBOARD.json...
import fs from "node:fs";
import path from "node:path";

const [out, ...files] = process.argv.slice(2);
let text = `
import type { AnnotationQuery, Dashboard, DataSourceRef, FieldColor, FieldConfig, HideSeriesConfig, LineStyle, Panel, RowPanel, ThresholdsConfig, ValueMapping, VariableModel } from "@grafana/schema";
import type * as timeseries from "@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as bargauge from "@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as heatmap from "@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as trend from "@grafana/schema/dist/types/raw/composable/trend/panelcfg/x/TrendPanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/types/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";

// In JSON an enum has its value, where TypeScript expects its name.
type Plain<T> = unknown extends T ? unknown
  : T extends string ? \`\${T}\`
  : T extends number | boolean | null | undefined ? T
  : T extends (infer E)[] ? Plain<E>[]
  : { [K in keyof T]: Plain<T[K]> };

interface Query {
  refId: string; datasource: DataSourceRef; editorMode: "code"; expr: string; legendFormat: string;
  instant?: boolean; range?: boolean; format?: "time_series" | "table" | "heatmap";
}
// What overrides may change, with the type that it has in a field's configuration.
type Property = { id: "unit" | "noValue" | "custom.fillBelowTo"; value: string } | { id: "custom.showPoints"; value: "always" } | { id: "custom.align"; value: "left" } | { id: "custom.axisPlacement"; value: "right" } | { id: "custom.hidden"; value: true }
  | { id: "decimals" | "max" | "custom.width" | "custom.lineWidth" | "custom.pointSize" | "custom.fillOpacity"; value: number } | { id: "custom.hideFrom"; value: HideSeriesConfig }
  | { id: "color"; value: Plain<FieldColor> } | { id: "thresholds"; value: Plain<ThresholdsConfig> } | { id: "mappings"; value: Plain<ValueMapping>[] }
  | { id: "links"; value: { title: string; url: string; targetBlank?: boolean }[] }
  | { id: "custom.cellOptions"; value: { type: "color-background" | "color-text" } } | { id: "custom.lineStyle"; value: Plain<LineStyle> };
interface Override { matcher: { id: "byName" | "byFrameRefID" | "byRegexp"; options: string }; properties: Property[] }
type Of<Type extends string, Options, Custom> = Plain<Omit<Panel, "type" | "options" | "targets" | "fieldConfig">> & {
  type: Type; targets: Query[]; options: Plain<Options>;
  fieldConfig: { defaults: Plain<Omit<FieldConfig, "custom">> & { custom?: Plain<Custom> }; overrides: Override[] };
};
// The compiler tells the kinds of panel apart by "type".
type Some = Of<"timeseries", timeseries.Options, timeseries.FieldConfig> | Of<"stat", stat.Options, {}>
  | Of<"bargauge", bargauge.Options, {}>
  | Of<"heatmap", Partial<heatmap.Options>, heatmap.FieldConfig> | Of<"table", Partial<table.Options>, {}>
  | Of<"trend", trend.Options, trend.FieldConfig>;
type Row = Plain<Omit<RowPanel, "type" | "panels">> & { type: "row"; panels: Some[] };
type Checked = Plain<Omit<Dashboard, "panels" | "templating" | "annotations">> & {
  panels: (Some | Row)[]; templating: { list: Plain<VariableModel>[] };
  // expr, titleFormat and useValueForTime belong to the data source.
  annotations: { list: (Plain<AnnotationQuery> & { expr?: string; titleFormat?: string; useValueForTime?: boolean })[] };
};
`;
for (const [i, file] of files.entries()) {
  text += `\n// ${path.basename(file)}\nexport const dashboard${i}: Checked = ${fs.readFileSync(file, "utf8").trim()};\n`;
}
fs.writeFileSync(out, text);
