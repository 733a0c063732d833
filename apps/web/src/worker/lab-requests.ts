/** Lab requests: the published results, apart because they are large and only one view needs them. */
export { runLab } from "@redrive/simulator";
